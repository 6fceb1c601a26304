"""What is already known: captions, features, parses, values, kept by what made them."""
