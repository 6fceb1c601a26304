"""Pascal-50S: pairs of captions and which of them people prefer."""
