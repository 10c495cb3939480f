"""The process that reads HDF5 files of others, bounded in time and memory."""
