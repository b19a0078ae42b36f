"""Preparation: what is done to video files and lists before training.

In: downloaded videos and official split files. Out: lists of videos, subsets of them, a report of
unreadable files, and videos encoded again so that they load quickly. Start with
``official_lists.py``.
"""
