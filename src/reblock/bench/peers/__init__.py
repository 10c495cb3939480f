"""`reblock bench peers`: reblock and its peers on the same arrays, with the same memory, in turns."""
