"""Generated videos for trying the method within minutes.

In: numbers of videos and a seed. Out: encoded videos with lists (``motion``: classes are motions of
shapes) or with the annotation files of AVA (``ava_movies``). Read ``motion`` first.
"""
