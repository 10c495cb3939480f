"""KEEP: read what seeks least, keep in memory what cannot be written in one piece yet.

::

    read 1   read 2            The part of read 1 that lies in a target block (┃) which read 2
    ┌───────┬┬──────┐          completes is kept until then, and the block is written whole:
    │       ┃▒      │          W_d = O_d on every axis where the read box is at least as long
    │       ┃▒      │          as a target block; on the others W_d = R_d ∪ O_d, nothing kept.
    └───────┴┴──────┘          T is the whole array, swept in the order of the disk.

The best read shape is r̂, in each dimension the least multiple of I_d that is not less than O_d: every source block
is read whole and every target block written whole, n_I + n_O seeks. If it fits it is taken. Else every candidate
shape (C_0, C_1, …, r̂_last), C_d ≤ r̂_d, is priced by the exact count, and the one with the fewest seeks that fits
the budget is taken. The thesis has C_d divide A_d; here also multiples and divisors of source and target blocks, so
that shapes which divide nothing are served; and where not even (1, …, 1, r̂_last) fits, the last dimension is
shortened too. Its F0–F7 write blocks and the merging of Table 2 are the product grid W above, and its simulated
peak of memory is the exact recursion of `reblock.cost.memory`.

Guédon, "A heuristic to repartition large multi-dimensional arrays with reduced disk seeking" (2020), section 3.2,
Algorithm 2, with its eq. 3 corrected: the openings of source blocks are Π |R_d ∪ I_d|.
"""

from __future__ import annotations

from reblock.model import Plan, Problem
from reblock.passes.candidates import count_seeks, search_kept


def propose(problem: Problem) -> Plan:
    """The read shape with the fewest seeks among the thesis' candidates."""
    return search_kept("keep", problem, count_seeks)
