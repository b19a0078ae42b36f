"""Synthetic data: small generated sets of videos for trying the method within minutes.

Out: encoded video files with lists (``motion_videos.py``, classes are motions of shapes) or with
AVA's annotation files (``ava_movies.py``). Start with ``motion_videos.py``.
"""
