"""`reblock bench papers`: the papers' tables again, their figures beside ours."""
