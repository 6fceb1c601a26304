"""How a metric came to the score of one caption."""
