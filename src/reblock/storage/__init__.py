"""Storage adapters: where bytes lie and what they mean, one module per format."""
