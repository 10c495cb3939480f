"""The exact seek model: opens, contiguous runs and bytes of one side of a pass.

One side moves memory boxes (grid M) to or from stored objects. Along each axis, over all pairs (M box, object)
that meet, let a be the units touched, u the pairs that touch all of the object and c the other pairs. With the
axes in their order on disk ::

    opens  = Π (c + u)                                  every pair is one visit
    inside = Σ_d (Π_{e<d} Σa_e) · c_d · (Π_{e>d} u_e)   runs of the partly touched objects
    runs   = inside + Π u                               a whole object is one run
    seeks  = opens + inside
    bytes  = Π Σ(length of the units touched)

because a run continues as long as the inner axes are covered entirely, and breaks at the innermost axis d that is not
covered. This is eq. 2 and 3 of Guédon's thesis for any number of dimensions, any grids and any order on disk, with the
input openings counted as they happen. A shard costs one run for each unit touched and one for its index, since its
units may be anywhere in it.
"""

from __future__ import annotations

from reblock.geometry import Grid, overlap
from reblock.model import Access, Layout, Traffic


def traffic(boxes: Grid, layout: Layout, access: Access, *, writing: bool = False, coalesced: int = 0) -> Traffic:
    """The traffic of moving every box of a memory grid once, on one side.

    Along the innermost `coalesced` axes on disk, objects are read in full, so that neighbouring runs are joined.
    """
    units = layout.objects if writing else layout.units
    full = layout.order if access is Access.UNITS else layout.order[layout.ndim - coalesced :]
    opens = touched = whole = 1
    inside, moved = 0, layout.itemsize
    # From the outermost axis on disk inwards, the sum over d gains one factor and one term at a time.
    for axis in layout.order:
        pair = overlap(boxes.axes[axis], layout.objects.axes[axis], units.axes[axis] if axis in full else None)
        inside = inside * pair.whole + touched * pair.cut
        opens *= pair.whole + pair.cut
        touched *= pair.touched
        whole *= pair.whole
        moved *= pair.length
    if layout.indexed and not writing:
        return Traffic(opens, touched + opens, touched + 2 * opens, moved)
    return Traffic(opens, inside + whole, opens + inside, moved)
