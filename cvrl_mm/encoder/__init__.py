"""The encoder, which users load, call and share.

In: a weights file, or a config. Out: :class:`.encoder.Encoder`, recognizers with its weights, and
graphs (ONNX, pt2). Start with ``encoder.py``; ``files.py`` finds weights and checks what a file
holds, and ``description.py`` builds the network that a file describes.
"""
