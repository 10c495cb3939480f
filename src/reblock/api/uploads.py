"""Uploads: what it costs to upload a single file that was built locally for an object store."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from reblock.api.devices import known_device
from reblock.model import Format, Layout
from reblock.model.store import is_single_file
from reblock.model.upload import Upload
from reblock.model.workspace import Uploader
from reblock.storage.location import Location
from reblock.storage.media.registry import medium_of
from reblock.units import format_seconds, format_size


def building_place(target: Location | None, format: Format | None) -> Location | None:
    """Where a target is built: in a local folder if it will be uploaded, else where it goes."""
    if target is None or format is None or not is_single_file(format):
        return target
    medium = medium_of(target.path)
    if not isinstance(medium, Uploader):
        return target
    return Location(medium.upload_workspace(target.path).parent)


def foresee_upload(target: Location | None, format: Format | None, layouts: Sequence[Layout]) -> Upload | None:
    """The upload of a file with these arrays; None if there is none. Encoded arrays may need less."""
    if target is None or building_place(target, format) == target or not layouts:
        return None
    size = sum(round(layout.nbytes * (layout.stored_part or 1.0)) for layout in layouts)
    # Only stores need it.
    uploading = import_module("reblock.storage.media.object_upload")
    parts, requests = uploading.count_requests(target.path, size)
    return Upload.on(known_device(target.path, layouts[0]), size, parts, requests, uploading.MAX_AT_ONCE)


def upload_notes(upload: Upload | None, *, done: bool = False) -> tuple[str, ...]:
    """An upload in words."""
    if upload is None:
        return ()
    size, parts = format_size(upload.bytes), f"{upload.parts:,} part{'s' * (upload.parts > 1)}"
    cost = f"{parts}, {upload.requests:,} requests, {format_seconds(upload.seconds)}"
    if done:
        return (f"uploaded: {size} in {cost}",)
    return (f"the file is built locally, and then uploaded: about {size} in {cost}, besides the cost above",)
