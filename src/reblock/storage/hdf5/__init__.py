"""HDF5: datasets are read and written outside the library's global lock where possible."""
