"""Recipes: what trains models and makes data, with capbench's own metrics and tasks as judge."""
