"""A run mapped over shards: executors, and what machines share."""
