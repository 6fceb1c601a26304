"""Trains the models of the shapes world; runs do not import it."""
