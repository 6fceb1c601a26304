"""Suites: a list of runs with the published table beside it."""
