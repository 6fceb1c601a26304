"""What metrics compute from vectors: kept features and scores of pairs, text encoders."""
