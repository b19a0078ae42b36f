"""The paper in miniature: its comparisons on generated videos, in several seeds each.

In: the configs of ``configs/miniature``. Out: accuracies per run and seed, tables, and one verdict
per claim of the paper with its confidence interval. Start with ``claims.py`` and ``tables.py``.
"""
