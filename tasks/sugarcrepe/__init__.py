"""SugarCrepe: a caption of a photograph, paired with a fluent one that is false."""
