"""Results that many machines share: objects by key in a folder or a bucket, each committed once and whole."""
