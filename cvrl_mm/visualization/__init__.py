"""Visualization of training runs, data and features.

In: logs, videos, features. Out: pictures and HTML pages. Start with ``curves.py`` (training curves)
or ``feature_page.py`` (a page about the features of videos).
"""
