"""Block folders: one file per block, and a small manifest."""
