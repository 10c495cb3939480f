"""Benchmarks: calibrate a device, race the peers, reproduce the papers."""
