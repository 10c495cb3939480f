"""Benchmarks: calibrate devices, reproduce the papers' tables, race the peers."""
