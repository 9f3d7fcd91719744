"""The command `opstep`: its arguments, its subcommands and their exit codes."""
