"""Results as rows and tables."""
