"""SugarCrepe: a caption of a photograph beside a fluent one that is false."""
