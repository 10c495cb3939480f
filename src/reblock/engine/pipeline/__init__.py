"""The pipeline: carries out one pass with threads that read, encode and write."""
