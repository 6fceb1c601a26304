"""What a run works on: items, pixels, models, settings, metric names, failures."""
