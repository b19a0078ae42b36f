"""Pictures and pages.

In: logs of trainings, clips, videos. Out: PNG files (``curves.py``) and HTML pages (``pages.py``).
Start with ``curves.py``.
"""
