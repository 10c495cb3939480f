"""MINC: volumes with named axes in space; MINC2 files are HDF5, MINC1 files are classic NetCDF."""
