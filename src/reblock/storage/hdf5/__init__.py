"""HDF5: datasets read and written around the library's global lock wherever their bytes allow it."""
