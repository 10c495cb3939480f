"""Build a file for an object store in a local folder; one upload publishes it.

::

    s3://bucket/scan.h5.reblock/lock        as for other targets, with a lease
    s3://bucket/scan.h5.reblock/journal/    the log
    s3://bucket/scan.h5.reblock/building    where the file grows: machine, folder, and the mark that it will have
    /var/tmp/.reblock-build-…/array         the file
    /var/tmp/.reblock-build-…/scratch       intermediate arrays
    s3://bucket/scan.h5                     made by the upload's last request, or not at all

The file has a mark of its run, by which it is recognised after a kill. If a run is resumed where the folder is not
to be found, on another machine or after a cleaning, the file is built again from the start.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import socket
import tempfile
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self
from uuid import uuid4

from reblock.errors import DiskError, ReblockError, UsageError, option
from reblock.model.medium import FOLDER
from reblock.model.upload import Upload
from reblock.storage.media.keys import KeyLog
from reblock.storage.media.object_upload import PartUpload, mark_of, upload
from reblock.storage.media.object_workspace import ObjectWorkspace
from reblock.storage.media.private import PrivateFolder
from reblock.storage.media.small import exists, read_whole

if TYPE_CHECKING:
    from reblock.storage.media.object import ObjectMedium

_ARRAY, _SCRATCH, _BUILDING = "array", "scratch", "building"
_BUILDING_BYTES = 16 << 10
_TOLD = ("machine", "folder", "mark")
#: The folder for large temporary files that survive a restart.
_LASTING = "/var/tmp"  # noqa: S108 - only private folders are made in it


def run_folder(target: str) -> str:
    """The prefix of a run's own objects; beside the target, because some stores cannot hold keys below an object."""
    return f"{target.rstrip('/')}.reblock"


class UploadWorkspace(ObjectWorkspace):
    """The local folder in which one file is built; as a context manager, it holds the lock in the store."""

    swaps = True

    def __init__(self, medium: ObjectMedium, target: str, folder: str | None = None) -> None:
        """`folder` is where the local folder is made."""
        super().__init__(medium, target)
        self.folder = run_folder(target)
        self.journal, self.lock = f"{self.folder}/journal", f"{self.folder}/lock"
        self._note = f"{self.folder}/{_BUILDING}"
        self._private: PrivateFolder | None = None
        self._mark = ""
        self.uploaded: Upload | None = None
        name = hashlib.blake2b(self.target.encode(), digest_size=8).hexdigest()
        self._go_to(os.path.join(os.path.abspath(folder or _lasting()), f".reblock-build-{name}"))

    def _go_to(self, place: str, reach: str | None = None) -> None:
        self.place, self.parent = place, os.path.dirname(place)
        self.reach = reach or place
        self.array, self.scratch = os.path.join(self.reach, _ARRAY), os.path.join(self.reach, _SCRATCH)

    def segment(self, number: int) -> Self:  # noqa: ARG002 - there is none
        """Refused: other machines do not see the folder."""
        raise UsageError(f"{self.target}: one machine builds a file; leave out {option('array_task')}, or write zarr")

    # ---------------------------------------------------------------- the lock
    @property
    def has_target(self) -> bool:
        """Whether anything has the target's name."""
        return exists(self._medium, self.target)

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self._objects.hold(self.folder, self._lease)
            self._settle_down()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def _settle_down(self) -> None:
        """Open the folder in which the file is built, or a new one if it is not here."""
        found = self._find_note()
        self._mark = found.get("mark", "") or uuid4().hex[:15]
        before, here = found.get("folder"), found.get("machine") == socket.gethostname()
        if before and here and os.path.isdir(before):
            self._go_to(before)
        elif before:
            where = "which is gone" if here else f"on {found.get('machine')}, not here"
            self.lost = f"the file was being built in {before}, {where}: it is built again from the start"
        self._private = PrivateFolder.make(self.place)
        self._go_to(self.place, self._private.reach)
        if before and self.has_log:
            self._tell()

    def _find_note(self) -> dict[str, str]:
        try:
            told = json.loads(read_whole(self._medium, self._note, limit_bytes=_BUILDING_BYTES))
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
            return {}
        except ValueError:
            return {}
        kept = {name: str(told[name]) for name in _TOLD if name in told} if isinstance(told, dict) else {}
        # Anyone who can write in the store must not be able to name an arbitrary folder.
        is_ours = os.path.basename(kept.get("folder", "")) == os.path.basename(self.place)
        return kept if is_ours and re.fullmatch(r"[0-9a-f]{15}", kept.get("mark", "")) else {}

    def _tell(self) -> None:
        told = {"machine": socket.gethostname(), "folder": self.place, "mark": self._mark}
        self._objects.replace(self._note, json.dumps(told).encode())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        private, self._private = self._private, None
        try:
            with suppress(ReblockError, OSError):
                if private is not None and not self.has_log:
                    self._clear_local(private)
                    private.remove_itself()
        finally:
            if private is not None:
                private.close()
            super().__exit__(kind, error, trace)
            self._objects.hold(self.folder, None)

    def check_place(self) -> None:
        """Raise StorageError if the lock was lost, or the folder moved."""
        super().check_place()
        if self._private is not None:
            self._private.check_place()

    # ---------------------------------------------------------------- the log
    def begin_log(self, line: bytes) -> KeyLog:
        """A new log, and before it the note on the folder."""
        self._mark = uuid4().hex[:15]
        self._tell()
        return super().begin_log(line)

    def forget_log(self) -> None:
        """Remove the log."""
        self._remove_log()

    # ---------------------------------------------------------------- the end
    def clear(self) -> list[str]:
        """Remove the file, scratch and log, and abort uploads to the target that were not completed."""
        removed = [self.journal] if self.has_log else []
        if self._private is not None and self._clear_local(self._private):
            removed.append(self.place)
        if self.target.startswith("s3://"):
            with PartUpload(self._objects, self.target) as uploads:
                count = uploads.abort_all()
            removed += [f"{self.target} (an unfinished upload)"] * count
        self._remove_log()
        self._medium.remove(self._note)
        return removed

    def _clear_local(self, private: PrivateFolder) -> bool:
        """Remove what runs make in the folder; returns whether there was anything."""
        names = private.names()
        ours = [name for name in names if name in (_ARRAY, _SCRATCH) or name.startswith(f"{_ARRAY}.")]
        self.left = [os.path.join(self.place, name) for name in names if name not in ours]
        for name in ours:
            private.remove(name)
        return bool(ours)

    def clear_array(self) -> None:
        """Remove the file, and what its format may have made beside it."""
        self._began = True
        if self._private is not None:
            for name in self._private.names():
                if name == _ARRAY or name.startswith(f"{_ARRAY}."):
                    self._private.remove(name)

    def identity(self) -> int:
        """The mark of the file."""
        return int(self._mark, 16)

    def is_published(self, identity: int) -> bool:
        """Whether the target has this mark."""
        with suppress(FileNotFoundError):
            return mark_of(self._objects, self.target) == f"{identity:015x}"
        return False

    def publish(self, *, replace: bool) -> None:
        """Upload the file."""
        self.check_place()
        if self.has_target:
            if not replace:
                raise FileExistsError(self.target)
            if self._medium.status(self.target).kind == FOLDER:
                self._medium.remove_folder(self.target)
        self.uploaded = upload(self._objects, self.target, self.array, self._mark, replace=replace)
        self._published = True

    def remove(self, *, finished: bool = False) -> list[str]:
        """Remove everything of the run."""
        self._published = self._published or finished
        removed = self.clear()
        if self._private is not None:
            self._private.remove_itself()
        return removed


def _lasting() -> str:
    """The folder for large temporary files: as TMPDIR says, else one that is not in memory."""
    if any(os.environ.get(name) for name in ("TMPDIR", "TEMP", "TMP")) or not os.access(_LASTING, os.W_OK):
        return tempfile.gettempdir()
    return _LASTING
