"""Trains the tiny dual encoders of the shapes world; no part of a run (``encoder.py``, ``pac.py``)."""
