"""Folders of files: one file of any single-file format for each block."""
