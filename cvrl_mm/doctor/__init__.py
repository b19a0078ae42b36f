"""Checks of an installation, a machine and a config: ``python -m cvrl_mm.doctor``.

In: the installed packages, the machine and, optionally, a config. Out: one line per check that is
ok, a note or a problem with a remedy. Start with ``__main__.py``.
"""
