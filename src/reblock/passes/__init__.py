"""Passes: what strategies and the search build from."""
