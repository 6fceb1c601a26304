"""Stand-in models of the shapes world, which know its scenes or write in its language by rule."""
