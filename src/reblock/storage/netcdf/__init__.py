"""NetCDF files: NetCDF-3 by a reader and writer of our own, NetCDF-4 on top of HDF5."""
