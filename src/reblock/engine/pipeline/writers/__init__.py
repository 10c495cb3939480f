"""Writers: how complete write boxes get to the target."""
