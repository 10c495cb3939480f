"""`python -m reblock` is the same as the command `reblock`."""

from __future__ import annotations

from reblock.cli import main

if __name__ == "__main__":
    main()
