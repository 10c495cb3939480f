"""Many stored arrays as one: concatenated along an axis, or stacked along a new one."""
