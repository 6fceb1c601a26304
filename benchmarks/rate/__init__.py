"""People rate captions in a browser, and what they said becomes a task."""
