"""Recipes of the shapes world, and the rows that they train on."""
