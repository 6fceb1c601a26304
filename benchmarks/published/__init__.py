"""Values that papers print."""
