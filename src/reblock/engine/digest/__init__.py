"""Digests: sums of an array's elements, and checks of finished boxes against them; hashes of tables and datasets."""

from reblock.engine.digest.formula import VERSION, reference_sums, sums, text
from reblock.engine.digest.tables import TableDigest, dataset_digest

__all__ = ["VERSION", "TableDigest", "dataset_digest", "reference_sums", "sums", "text"]
