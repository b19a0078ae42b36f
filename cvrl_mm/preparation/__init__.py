"""Make the lists of data sets; check videos and encode them again before training.

In: a list or a folder of videos. Out: a list without bad videos, with the faults of the others
(``check``); copies that load faster (``repack``); lists from the files that data sets come with
(``official_lists``). Read ``check`` first.
"""
