"""Runs training recipes: ``bench train RECIPE.yaml``."""
