"""A look at an installation: ``python -m cvrl_mm.doctor``."""
