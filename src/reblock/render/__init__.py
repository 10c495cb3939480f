"""Words and pictures of plans and reports."""
