"""Regions of interest: boxes, spheres and labels of a mask, read together from any chunking."""
