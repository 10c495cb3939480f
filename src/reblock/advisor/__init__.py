"""The advisor: which chunks serve an access pattern, in which order and in how many copies; it touches nothing."""
