"""Curves of trainings. In: logs. Out: PNG files. Read ``curves.py``."""
