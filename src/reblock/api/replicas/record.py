"""The record of a folder of replicas: which copies there are, and which generation of them is current.

::

    DIR/replicas.json                   the current generation; replaced by one rename
    DIR/generations/000002/0.zarr       a copy; chunks that an update did not touch are links to those before
    DIR/generations/000002/lock         held by readers, so that the generation is not removed while they read
    DIR/.reblock/lock                   held by whoever changes something here

The file is hostile input like any other: it is small, it has a checksum, and paths in it must have this form.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reblock.errors import CorruptError, DiskError, FormatError, UsageError
from reblock.model import Sums
from reblock.storage.media.local import LOCAL
from reblock.storage.media.small import exists, read_whole

RECORD, GENERATIONS = "replicas.json", "generations"
#: Version of the record.
VERSION = 1
_PATH = re.compile(rf"{GENERATIONS}/([0-9]{{6}})/[0-9]{{1,3}}\.zarr")
_LONGEST = 1 << 20


@dataclass(frozen=True)
class ReplicaCopy:
    """One copy of the array."""

    path: str
    """Its path below the folder."""
    chunks: tuple[int, ...]
    """Its chunk shape."""
    classes: tuple[str, ...]
    """Labels of the accesses that it was made for."""
    metadata: str
    """Hash of its metadata, which has no checksum of its own."""

    def to_json(self) -> dict[str, Any]:
        """The copy as JSON."""
        return {
            "path": self.path,
            "chunks": list(self.chunks),
            "classes": list(self.classes),
            "metadata": self.metadata,
        }


@dataclass(frozen=True)
class ReplicaSet:
    """All copies of one generation."""

    folder: str
    """The folder of the replicas."""
    generation: int
    """Number of the generation."""
    shape: tuple[int, ...]
    """Shape of the array."""
    dtype: str
    """Type of its elements."""
    digest: str | None
    """Digest of its elements."""
    source: str
    """The array that the copies were made from."""
    device: str
    """The device by which reads are priced: a preset, or `auto`, as earlier runs measured it."""
    copies: tuple[ReplicaCopy, ...]
    """The copies."""
    sums: Sums | None = None
    """Digest sums of all elements, once an update has computed them."""

    def to_json(self) -> dict[str, Any]:
        """The document of `replicas.json`, without its checksum."""
        return {
            "replicas": VERSION,
            "generation": self.generation,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "digest": self.digest,
            "sums": None if self.sums is None else list(self.sums),
            "source": self.source,
            "device": self.device,
            "copies": [one.to_json() for one in self.copies],
        }

    def path_of(self, copy: int) -> str:
        """Path of a copy."""
        return os.path.join(self.folder, self.copies[copy].path)

    def write(self) -> None:
        """Make this the current generation, in one step."""
        document = self.to_json()
        text = json.dumps({**document, "check": _checksum(document)}, indent=2)
        LOCAL.replace(os.path.join(self.folder, RECORD), text.encode())


def generation_path(folder: str, generation: int) -> str:
    """Path of the folder of a generation."""
    return os.path.join(folder, GENERATIONS, f"{generation:06}")


def copy_path(generation: int, copy: int) -> str:
    """Path of a copy below the folder of replicas."""
    return f"{GENERATIONS}/{generation:06}/{copy}.zarr"


def lock_path(folder: str, generation: int) -> str:
    """Path of the lock of a generation's readers."""
    return os.path.join(generation_path(folder, generation), "lock")


def metadata_hash(path: str) -> str:
    """Hash of the metadata of a copy."""
    data = read_whole(LOCAL, os.path.join(path, "zarr.json"), limit_bytes=64 << 20)
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def is_there(folder: str) -> bool:
    """Whether a folder holds replicas."""
    return exists(LOCAL, os.path.join(folder, RECORD))


def read_set(folder: str) -> ReplicaSet:
    """The current generation; UsageError if the folder holds no replicas, FormatError if the record is damaged."""
    path = os.path.join(folder, RECORD)
    try:
        data = read_whole(LOCAL, path, limit_bytes=_LONGEST)
    except DiskError as error:
        if exists(LOCAL, path):
            raise
        raise UsageError(
            f"{folder} holds no replicas, there is no {RECORD}: make them with reblock replicas create SRC {folder}"
        ) from error
    try:
        document = json.loads(data)
        check = document.pop("check")
        if check != _checksum(document):
            raise CorruptError(f"{path}: the checksum does not match")
        return _parse(folder, document)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"{path} is not a record of replicas: {error}") from error


def _parse(folder: str, document: Mapping[str, Any]) -> ReplicaSet:
    if document["replicas"] != VERSION:
        raise ValueError(f"version {document['replicas']!r}, not {VERSION}")
    generation = int(document["generation"])
    copies = tuple(_copy(one, generation) for one in document["copies"])
    if not copies:
        raise ValueError("no copies")
    sums = document["sums"]
    return ReplicaSet(
        folder,
        generation,
        tuple(int(n) for n in document["shape"]),
        str(document["dtype"]),
        document["digest"],
        str(document["source"]),
        str(document["device"]),
        copies,
        None if sums is None else Sums(int(sums[0]), int(sums[1])),
    )


def _copy(document: Mapping[str, Any], generation: int) -> ReplicaCopy:
    path = str(document["path"])
    found = _PATH.fullmatch(path)
    if found is None or int(found[1]) != generation:
        raise ValueError(f"path {path!r}")
    chunks = tuple(int(n) for n in document["chunks"])
    return ReplicaCopy(path, chunks, tuple(map(str, document["classes"])), str(document["metadata"]))


def _checksum(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
