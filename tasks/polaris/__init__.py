"""Polaris: captions of ten captioners, rated by people."""
