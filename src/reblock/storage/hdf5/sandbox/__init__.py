"""The process that reads other people's HDF5 files, limited in time and memory."""
