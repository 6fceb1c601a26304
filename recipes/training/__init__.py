"""What carries out training recipes: ``bench train RECIPE.yaml``."""
