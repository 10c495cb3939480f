"""One uncompressed NIfTI volume: its elements are one run of bytes, which the engine reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from reblock.errors import CorruptError
from reblock.geometry import Grid
from reblock.model.layout import Layout
from reblock.model.medium import Medium
from reblock.model.roots import Roots
from reblock.model.schema import NO_RECORD, Record, Schema
from reblock.model.store import Bytes, Extent, Index, Read
from reblock.storage.by_extent import RawByExtent
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.nifti.adapt import preamble_of


@dataclass(frozen=True)
class NiftiStore(RawByExtent):
    """One .nii file, or a pair of files."""

    path: str
    """The file with the header."""
    schema: Schema
    """Its schema."""
    offset: int
    """Bytes before the first element."""
    image: str = ""
    """The file with the elements, if it is another one."""
    roots: Roots | None = None
    """The real file with the elements; None for a new one."""
    medium: Medium = LOCAL
    """The medium of the files."""

    @property
    def format(self) -> str:
        return "nifti"

    @cached_property
    def layout(self) -> Layout:
        return layout_of(self.schema)

    @property
    def described_by(self) -> Sequence[str]:
        return (self.path, self.image) if self.image else (self.path,)

    def extents(self, index: Index, units: Sequence[Index], read: Read) -> Sequence[Extent | None]:  # noqa: ARG002 - the file is all there is
        return [self.place(index) for _ in units]

    def place(self, index: Index) -> Extent:  # noqa: ARG002 - there is only one object
        return Extent(self.image or self.path, self.offset, self.layout.nbytes)

    def preamble(self, index: Index) -> Bytes:  # noqa: ARG002 - there is only one object
        return preamble_of(self.schema)

    def checkpoint(self) -> None:
        self.medium.sync(self.path)

    def commit(self, record: Record = NO_RECORD) -> None:  # noqa: ARG002 - a header has no place for it
        self.check_size()
        self.medium.sync(self.path)
        self.medium.sync_name(self.path)

    def check_size(self) -> None:
        """CorruptError if the file is shorter than its header promises."""
        path = self.image or self.path
        with disk_errors("look at", path):
            found = self.medium.status(path, roots=self.roots).size
        expected = self.offset + self.layout.nbytes
        if found < expected:
            raise CorruptError(
                f"{path}: {found:,} bytes, its header promises {self.layout.nbytes:,} from byte {self.offset:,} on"
            )


def layout_of(schema: Schema) -> Layout:
    """The whole array is one object."""
    return Layout.raw(schema.dtype, Grid.whole(schema.shape), schema.order)
