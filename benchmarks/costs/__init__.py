"""What runs cost: measured figures of a machine, and what follows from them for any number of captions."""
