"""Flickr30k: photographs with five captions."""
