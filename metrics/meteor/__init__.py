"""METEOR 1.5: in Python, and by its released jar."""
