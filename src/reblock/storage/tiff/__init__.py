"""TIFF, BigTIFF and OME-TIFF: pages of strips or tiles in one file."""
