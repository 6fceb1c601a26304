"""Engines: where the units of a run are carried out. They know nothing of captions."""
