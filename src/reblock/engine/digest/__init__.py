"""Digests: sums of an array's elements, and checks of finished boxes against them."""

from reblock.engine.digest.formula import VERSION, reference_sums, sums, text

__all__ = ["VERSION", "reference_sums", "sums", "text"]
