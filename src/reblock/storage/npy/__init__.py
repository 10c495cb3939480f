"""NPY: one contiguous array in one file."""
