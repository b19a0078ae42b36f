"""Generated videos for trying the method within minutes.

In: numbers of videos and a seed. Out: encoded videos, whose classes are motions of shapes, with
their lists. Read ``motion.py``.
"""
