"""KEEP as printed: the thesis' own choices, made by its own formula.

The search is that of `keep`; candidates are ranked by eq. 3 as it stands in the thesis ::

    s = SEEKS(R, I) + SEEKS(W, O) + c_0(R, I)·c_1(R, I)·c_2(R, I) + n_W
                                    ───────────┬───────────────
        meant as the openings of source blocks ┘  but c counts pieces of *cut* blocks only, so the product is zero
                                                  wherever one dimension is uncut, and openings cost nothing

With it Table 4 comes out as printed (config 2 under 4 GB: 500,700,700, which costs 3143 seeks, where 350,700,700 costs
2568). The plan's cost is still the exact count; only the choice is the thesis'.

Guédon (2020), section 3.2.6, eq. 3 and Table 4.
"""

from __future__ import annotations

from math import prod

from reblock.geometry import Grid, Overlap, overlap
from reblock.model import Layout, Pass, Plan, Problem
from reblock.passes.candidates import Rank, search_kept


def propose(problem: Problem) -> Plan:
    """The read shape that the thesis' printed formula prefers."""
    return search_kept("keep-printed", problem, printed_seeks)


def printed_seeks(problem: Problem, made: Pass) -> Rank:
    """Eq. 3 as printed."""
    reads, writes = _pairs(made.read, problem.source), _pairs(made.write, problem.target)
    return (_inside(reads) + _inside(writes) + prod(pair.cut for pair in reads) + made.write.count,)


def _pairs(boxes: Grid, layout: Layout) -> list[Overlap]:
    """How boxes and objects meet along each axis, in the order on disk."""
    return [overlap(boxes.axes[axis], layout.objects.axes[axis]) for axis in layout.order]


def _inside(pairs: list[Overlap]) -> int:
    """SEEKS of the thesis: contiguous pieces of cut blocks."""
    return sum(
        prod(outer.touched for outer in pairs[:place]) * pair.cut * prod(inner.whole for inner in pairs[place + 1 :])
        for place, pair in enumerate(pairs)
    )
