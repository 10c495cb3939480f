"""Block folders: one file per block, and a manifest."""
