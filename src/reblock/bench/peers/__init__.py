"""`reblock bench peers`: race reblock against its peers on the same arrays with the same memory."""
