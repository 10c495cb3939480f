"""The commands: one module each, named after the command; each defines `command`."""
