"""The size of a JPEG stream, read before a decoder allocates memory for what the stream says."""

from __future__ import annotations

from reblock.errors import CorruptError
from reblock.model.store import Bytes

#: Markers of frames, which contain the size; DHT, JPG and DAC are among their numbers.
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
#: Markers without a length.
_BARE = frozenset((0x01, *range(0xD0, 0xDA)))


def check_jpeg(data: Bytes, width: int, most_bytes: int) -> None:
    """CorruptError if a stream is wider than a segment, or has more elements than that has bytes."""
    view, place = memoryview(data), 2
    while place + 4 <= len(view):
        if view[place] != 0xFF:
            raise CorruptError(f"JPEG: no marker at byte {place}")
        marker = view[place + 1]
        if marker == 0xFF or marker in _BARE:
            place += 1 if marker == 0xFF else 2
            continue
        if marker in _FRAMES and place + 10 <= len(view):
            rows, columns = (int.from_bytes(view[place + at : place + at + 2], "big") for at in (5, 7))
            if columns > width or rows * columns > most_bytes:
                raise CorruptError(f"JPEG: an image of {rows} × {columns}, a strip or tile has {width} columns")
            return
        place += 2 + int.from_bytes(view[place + 2 : place + 4], "big")
    raise CorruptError("JPEG: the stream has no frame")
