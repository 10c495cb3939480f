"""Readers: how the units that a pass reads get into its write boxes."""
