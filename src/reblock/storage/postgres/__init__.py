"""The postgres format: arrays in the rows of a database."""
