"""The engine's memory: counted before it is allocated, reused, and given in plan order."""
