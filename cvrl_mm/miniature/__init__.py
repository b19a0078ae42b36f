"""The paper's comparisons in miniature, on generated videos and with several seeds.

In: the configs of ``configs/miniature``. Out: accuracies per run and seed, tables, and one verdict
per claim of the paper with its confidence interval. Start with ``claims.py`` and ``tables.py``.
"""
