"""Zarr, versions 2 and 3: chunks and shards as files below a folder, with metadata in JSON."""
