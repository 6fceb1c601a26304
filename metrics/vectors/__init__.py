"""What metrics compute from vectors: kept features, projections, token weights, text encoders."""
