"""Count the pairs of blocks of two regular axes in closed form, whatever their number and period.

Block k of a regular axis covers [k·r, (k + 1)·r). Every count of its overlap with objects of length s is a sum of
floors of such numbers over s. A sum of floors of an arithmetic sequence takes no longer than Euclid's algorithm.
"""

from __future__ import annotations


def floor_sum(count: int, divisor: int, step: int, first: int) -> int:
    """The sum of ⌊(step·k + first) / divisor⌋ over k = 0 … count − 1, all of them at least 0.

    >>> floor_sum(4, 3, 2, 1)
    4
    """
    total = 0
    while count > 0:
        total += (count - 1) * count // 2 * (step // divisor) + count * (first // divisor)
        step, first = step % divisor, first % divisor
        last = step * count + first
        if last < divisor:
            break
        count, first, step, divisor = last // divisor, last % divisor, divisor, step
    return total


def count_regular(count: int, block: int, objects: int, units: int | None) -> tuple[int, int, int, int] | None:
    """Whole pairs, cut pairs, units touched and their length, for the first `count` blocks.

    No block may reach an object or unit that ends early. Units divide objects. Returns None if the number of whole
    objects is not a sum of floors: for blocks shorter than an object but longer than an object minus two units.
    """

    def floors(divisor: int, shift: int) -> int:
        return floor_sum(count, divisor, block, shift)

    pairs = floors(objects, block - 1) - floors(objects, 0) + count
    if units is None:
        whole = floors(objects, block) - floors(objects, objects - 1) if block >= objects else 0
        return whole, pairs - whole, count * block, count * block
    touched = floors(units, block - 1) - floors(units, 0) + count
    if block >= objects or units == objects:
        whole = floors(objects, block + units - 1) - floors(objects, objects - units)
    elif block + 2 * units <= objects:
        whole = 0
    else:
        return None
    return whole, pairs - whole, touched, touched * units
