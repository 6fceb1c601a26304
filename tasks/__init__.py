"""Tasks: YAML files that declare data, protocol, metrics and statistics, and what reads them."""
