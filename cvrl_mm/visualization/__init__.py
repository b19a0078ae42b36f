"""Pictures of runs and of data; they need matplotlib, of the ``quickstart`` extra."""
