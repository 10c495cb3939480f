"""NIfTI-1 and NIfTI-2: one volume in one file, plain or compressed, or in a pair of files."""
