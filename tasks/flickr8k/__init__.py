"""Flickr8k-Expert and Flickr8k-CF, from the files as distributed."""
