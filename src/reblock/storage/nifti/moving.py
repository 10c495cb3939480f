"""Headers of blocks: the header of a volume with the place of one of its blocks in space.

Only the translations of qform and sform change, so they are replaced in the bytes of the header; a volume may have
thousands of blocks.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from reblock.storage.nifti.header import SIZES, fields_of

#: Where the translations are, in each version: those of qform, those of sform, and how numbers are stored.
_PLACES = {1: ((268, 272, 276), (292, 308, 324), "f"), 2: ((376, 384, 392), (424, 456, 488), "d")}


def moved_head(head: bytes, origin: Sequence[int]) -> bytes:
    """The same bytes before elements, for an array that begins at `origin` of the one that they describe."""
    found = _forms(head)
    steps = np.zeros(3)
    steps[: min(len(origin), 3)] = origin[:3]
    if found is None or not steps.any():
        return head
    version, order, forms = found
    qform_places, sform_places, number = _PLACES[version]
    made = bytearray(head)
    for form, places in zip(forms, (qform_places, sform_places), strict=True):
        if form is not None:
            for place, value in zip(places, (form[:3, :3] @ steps + form[:3, 3]).tolist(), strict=True):
                struct.pack_into(order + number, made, place, value)
    return bytes(made)


@lru_cache(maxsize=256)
def _forms(head: bytes) -> tuple[int, str, tuple[npt.NDArray[Any] | None, npt.NDArray[Any] | None]] | None:
    """Version, byte order, qform and sform of a header; None if it has neither."""
    little = int.from_bytes(head[:4], "little")
    size = little if little in SIZES.values() else int.from_bytes(head[:4], "big")
    version = next((one for one, length in SIZES.items() if length == size), None)
    if version is None:
        return None
    fields = fields_of(head[:size], version)
    try:
        with np.errstate(all="ignore"):
            qform = fields.get_qform() if int(fields["qform_code"]) > 0 else None
    except Exception:  # noqa: BLE001 - nibabel raises many kinds of errors for odd quaternions
        qform = None
    sform = fields.get_sform() if int(fields["sform_code"]) > 0 else None
    return version, "<" if little == size else ">", (qform, sform)
