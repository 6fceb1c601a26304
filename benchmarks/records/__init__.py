"""The record of a run: built, written, read, and verified."""
