"""Evaluation of trained encoders: one door for everything after training.

In: an encoder and videos. Out: features, and accuracies. Start with ``features.py``, the one loop
over clips (of ``clips.py``) and its store; ``protocols.py`` has functions of features, and
``labelled.py`` reads the labels.
"""
