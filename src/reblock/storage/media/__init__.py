"""Media: where bytes live, and the calls that reach them."""
