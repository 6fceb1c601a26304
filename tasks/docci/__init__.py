"""DOCCI: photographs with long human descriptions."""
