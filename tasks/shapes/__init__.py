"""The shapes world: generated pictures whose content is known exactly."""
