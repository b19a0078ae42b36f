"""Evaluation of trained encoders.

In: weights and videos. Out: features, accuracies and nearest neighbours. Start with
``features.py``, the one loop over videos; a protocol (``linear_probe.py``, ``knn.py``) is
then a function of features and labels. ``encoder.py`` has what ``cvrl_mm.load_encoder`` returns,
and ``extraction.py`` writes its features of video files.
"""
