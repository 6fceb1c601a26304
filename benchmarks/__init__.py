"""How a benchmark runs: plan, protocols, statistics, store, records, command line."""
