"""Suites: published tables as lists of runs."""
