"""Media: where bytes are stored, and the calls that access them."""
