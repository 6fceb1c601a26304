"""The ``bench`` command: one file a subcommand, heavy imports inside."""
