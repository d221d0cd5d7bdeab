"""The `headrace` command: the subcommands of what is installed."""
