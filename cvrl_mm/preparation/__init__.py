"""Check videos and encode them again before training.

In: a list or a folder of videos. Out: a list without bad videos, with the faults of the others
(``check``); copies that load faster (``repack``). Read ``check`` first.
"""
