"""Runs over shards: executors, and the files that machines share."""
