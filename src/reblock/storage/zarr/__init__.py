"""Zarr, versions 2 and 3: chunks and shards as files below a folder, metadata in JSON beside them."""
