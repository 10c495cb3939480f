"""The commands: one module each, named after the command, that defines `command`."""
