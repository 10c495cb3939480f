"""Storage adapters: where bytes are and what they mean, one package per format."""
