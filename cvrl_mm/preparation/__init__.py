"""Preparation of video files and lists before training.

In: downloaded videos and official split files. Out: lists of videos, subsets of lists, a report of
unreadable files, and videos that are encoded again for faster loading. Start with
``official_lists.py``.
"""
