"""Virtual datasets of HDF5: as h5py reads them, but never with fill for a source that is not there."""

from __future__ import annotations

import os
import pickle
import random
import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import reblock
from reblock.errors import CorruptError, DiskError, ExternalError, FormatError, StorageError
from reblock.geometry import Box
from reblock.model.store import TransferMode
from reblock.storage.hdf5 import foreign as hdf5_foreign
from reblock.storage.hdf5.format import FORMAT
from reblock.testing.arrays import Array, same_bits
from reblock.testing.reference_io import read_array


def virtual(
    path: Path, shape: tuple[int, ...], *mappings: Any, dtype: str = "<i4", name: str = "v", fill: Any = -1
) -> None:
    """A virtual dataset; each mapping has the key of the layout, file, name, shape and key of the source."""
    layout = h5py.VirtualLayout(shape, dtype)
    for key, file, inner, size, part in mappings:
        source = h5py.VirtualSource(file, inner, size, dtype=dtype)
        layout[key] = source[part] if part is not None else source
    with h5py.File(path, "a") as file:
        file.create_virtual_dataset(name, layout, fillvalue=fill)


def numbers(path: Path, shape: tuple[int, ...], start: int = 0, name: str = "x", **options: Any) -> Array:
    data = np.arange(start, start + np.prod(shape), dtype="<i4").reshape(shape)
    with h5py.File(path, "a") as file:
        file.create_dataset(name, data=data, **options)
    return data


def both(path: Path, inner: str = "v") -> tuple[Array, Array]:
    """What we read, and what HDF5 does, in the folder of the file."""
    store = FORMAT.open(str(path), inner, [str(path.parent)])
    assert store.reads is TransferMode.BOX
    with h5py.File(path) as file:
        return read_array(store), np.asarray(file[inner][...])


# -------------------------------------------------------------------- elements
def test_files_side_by_side(tmp_path: Path) -> None:
    parts = [numbers(tmp_path / f"{n}.h5", (4, 6), 100 * n, chunks=(2, 3), compression="gzip") for n in range(3)]
    virtual(tmp_path / "v.h5", (3, 4, 6), *((n, f"{n}.h5", "x", (4, 6), None) for n in range(3)))
    ours, theirs = both(tmp_path / "v.h5")
    assert same_bits(ours, theirs)
    assert same_bits(ours, np.stack(parts))
    report = reblock.repartition(
        tmp_path / "v.h5", tmp_path / "v.zarr", chunks=(1, 2, 6), memory="64KiB", allow_external=[tmp_path]
    )
    assert any("virtual dataset, of elements in 3 files" in note for note in report.notes)
    assert same_bits(np.asarray(reblock.open(tmp_path / "v.zarr")[...]), theirs)


def some_slice(rng: random.Random, length: int, wanted: int) -> slice | None:
    """A slice of so many elements of an axis."""
    if wanted > length:
        return None
    step = rng.randint(1, (length - 1) // max(wanted - 1, 1) or 1) if wanted > 1 else 1
    start = rng.randint(0, length - 1 - (wanted - 1) * step)
    return slice(start, start + (wanted - 1) * step + 1, step)


def check_random(folder: Path, seed: int) -> None:
    rng = random.Random(seed)
    rank = rng.randint(1, 3)
    shape = tuple(rng.randint(1, 9) for _ in range(rank))
    mappings = []
    for number in range(rng.randint(0, 4)):
        size = tuple(rng.randint(1, 9) for _ in range(rank))
        file = folder / f"{seed}-{number}.h5"
        numbers(file, size, 1000 * (number + 1))
        lengths = [rng.randint(1, min(n, m)) for n, m in zip(shape, size, strict=True)]
        here = tuple(some_slice(rng, n, k) for n, k in zip(shape, lengths, strict=True))
        there = tuple(some_slice(rng, n, k) for n, k in zip(size, lengths, strict=True))
        mappings.append((here, file.name, "x", size, there))
    path = folder / f"v{seed}.h5"
    dtype, fill = rng.choice(["<i4", ">i8", "<f4"]), rng.choice([0, 7])
    virtual(path, shape, *mappings, dtype=dtype, fill=fill)
    ours, theirs = both(path)
    # Where mappings overlap, HDF5 may leave the rest as it was in memory, since it counts elements twice.
    rest = np.full(shape, True)
    for here, *_ in mappings:
        rest[here] = False
    theirs[rest] = fill
    assert same_bits(ours, theirs), seed
    store = FORMAT.open(str(path), "", [str(folder)])
    start = tuple(rng.randint(0, n - 1) for n in shape)
    box = Box(start, tuple(rng.randint(s + 1, n) for s, n in zip(start, shape, strict=True)))
    out = np.empty(box.shape, dtype)
    assert store.read_box(box, out)
    assert same_bits(out, theirs[box.slices]), seed


def test_random_mappings(tmp_path: Path) -> None:
    for seed in range(12):
        check_random(tmp_path, seed)


@pytest.mark.faults
def test_many_random_mappings(tmp_path: Path) -> None:
    for seed in range(100, 400):
        check_random(tmp_path, seed)


def test_blocks_on_either_side(tmp_path: Path) -> None:
    """Blocks of several elements with gaps between them, which h5py's own layouts do not make."""
    data = numbers(tmp_path / "a.h5", (40,))
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    space = h5py.h5s.create_simple((30,))
    here, there = h5py.h5s.create_simple((30,)), h5py.h5s.create_simple((40,))
    here.select_hyperslab((1,), (4,), (7,), (3,))  # start, count, stride, block
    there.select_hyperslab((2,), (6,), (5,), (2,))
    dcpl.set_virtual(here, b"a.h5", b"x", there)
    with h5py.File(tmp_path / "v.h5", "w") as file:
        h5py.h5d.create(file.id, b"v", h5py.h5t.STD_I32LE, space, dcpl)
    ours, theirs = both(tmp_path / "v.h5")
    assert same_bits(ours, theirs)
    assert ours[8] == data[2 + 5 + 1]


def test_long_pieces_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers(tmp_path / "a.h5", (50, 30))
    virtual(tmp_path / "v.h5", (50, 60), (np.s_[:, ::2], "a.h5", "x", (50, 30), None))
    sizes = []
    true = hdf5_foreign.Foreign.read

    def counted(self: Any, box: Box, out: Array, *more: Any, **named: Any) -> bool:
        sizes.append(out.nbytes)
        return true(self, box, out, *more, **named)

    monkeypatch.setattr(hdf5_foreign.Foreign, "read", counted)
    monkeypatch.setattr(hdf5_foreign, "_PIECE_BYTES", 256)
    ours, theirs = both(tmp_path / "v.h5")
    assert same_bits(ours, theirs)
    assert max(sizes) <= 256
    assert sum(sizes) == 50 * 30 * 4


def test_a_virtual_dataset_of_virtual_datasets(tmp_path: Path) -> None:
    numbers(tmp_path / "a.h5", (6, 4))
    virtual(tmp_path / "b.h5", (6, 6), (np.s_[:, 1:5], "a.h5", "x", (6, 4), None), fill=5)
    virtual(tmp_path / "c.h5", (3, 6), (np.s_[:], "b.h5", "v", (6, 6), np.s_[::2]))
    ours, theirs = both(tmp_path / "c.h5")
    assert same_bits(ours, theirs)
    store = FORMAT.open(str(tmp_path / "c.h5"), "", [str(tmp_path)])
    assert [os.path.basename(file) for file in store.described_by] == ["c.h5", "a.h5", "b.h5"]


def test_the_same_file_needs_no_permission(tmp_path: Path) -> None:
    data = numbers(tmp_path / "a.h5", (6, 4))
    virtual(tmp_path / "a.h5", (4,), (np.s_[:], ".", "x", (6, 4), np.s_[2]))
    store = FORMAT.open(str(tmp_path / "a.h5"), "v")
    assert same_bits(read_array(store), data[2])
    assert same_bits(read_array(pickle.loads(pickle.dumps(store))), data[2])
    assert store.described_by == (str(tmp_path / "a.h5"),)


def test_more_sources_than_are_kept_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdf5_foreign, "_MANY_OPEN", 2)
    for n in range(5):
        numbers(tmp_path / f"{n}.h5", (4,), 10 * n)
    virtual(tmp_path / "v.h5", (5, 4), *((n, f"{n}.h5", "x", (4,), None) for n in range(5)))
    ours, theirs = both(tmp_path / "v.h5")
    assert same_bits(ours, theirs)


def test_counts_and_memory_are_as_predicted(tmp_path: Path) -> None:
    """The library's elements come in pieces, as raw ones do, and not a whole read box at once."""
    data = numbers(tmp_path / "a.h5", (64, 256, 256))
    virtual(tmp_path / "v.h5", (64, 256, 256), (np.s_[:], "a.h5", "x", (64, 256, 256), None))
    job = reblock.plan(
        tmp_path / "v.h5", tmp_path / "o.zarr", chunks=(64, 32, 256), memory="24MiB", allow_external=[tmp_path]
    )
    tracemalloc.start()
    try:
        report = reblock.run(job)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    for count in ("opens", "seeks", "bytes_read", "bytes_written"):
        assert getattr(report.measured, count) == getattr(report.predicted, count), count
    # What the engine maps is not traced; a piece has at most 4 MiB.
    assert peak < 14 << 20
    assert same_bits(np.asarray(reblock.open(tmp_path / "o.zarr")[...]), data)


# -------------------------------------------------------------------- sources that are not there, or not allowed
def test_a_source_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    numbers(tmp_path / "a.h5", (4,))
    virtual(tmp_path / "v.h5", (2, 4), (0, "a.h5", "x", (4,), None), (1, "b.h5", "x", (4,), None))
    with pytest.raises(DiskError, match=r"b\.h5.*No such file.*a source of the virtual dataset .*v\.h5::v"):
        FORMAT.open(str(tmp_path / "v.h5"), "", [str(tmp_path)])
    numbers(tmp_path / "b.h5", (4,), name="y")
    with pytest.raises(FormatError, match=r"b\.h5 has no x.*a source of the virtual dataset"):
        FORMAT.open(str(tmp_path / "v.h5"), "", [str(tmp_path)])
    numbers(tmp_path / "b.h5", (3,))
    with pytest.raises(FormatError, match=r"of b\.h5::x, \[3\] elements as \[4\]"):
        FORMAT.open(str(tmp_path / "v.h5"), "", [str(tmp_path)])
    virtual(tmp_path / "w.h5", (3,), (np.s_[:], "b.h5", "x", (4,), np.s_[1:]))
    with pytest.raises(CorruptError, match=r"of b\.h5::x: \[4\] elements are selected of \[3\]"):
        FORMAT.open(str(tmp_path / "w.h5"), "", [str(tmp_path)])


def test_a_source_that_goes_away_is_an_error(tmp_path: Path) -> None:
    numbers(tmp_path / "a.h5", (4,))
    virtual(tmp_path / "v.h5", (4,), (np.s_[:], "a.h5", "x", (4,), None))
    store = FORMAT.open(str(tmp_path / "v.h5"), "", [str(tmp_path)])
    (tmp_path / "a.h5").rename(tmp_path / "b.h5")
    with pytest.raises(StorageError, match=r"a\.h5"):
        read_array(store)


def test_sources_outside_are_refused(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "near").mkdir()
    numbers(tmp_path / "far" / "a.h5", (4,))
    (tmp_path / "near" / "link.h5").symlink_to("../far/a.h5")
    for number, name in enumerate((str(tmp_path / "far" / "a.h5"), "../far/a.h5", "link.h5")):
        path = tmp_path / "near" / f"v{number}.h5"
        virtual(path, (4,), (np.s_[:], name, "x", (4,), None))
        for allow in ([], [str(tmp_path / "near")]):
            with pytest.raises(ExternalError, match=rf"virtual dataset of .*allow_external=\['{tmp_path}/far'\]"):
                FORMAT.open(str(path), "", allow)
        store = FORMAT.open(str(path), "", [str(tmp_path / "far")])
        assert read_array(store).tolist() == [0, 1, 2, 3]
        assert store.described_by == (str(path), str(tmp_path / "far" / "a.h5"))


def test_a_source_that_leads_outside_is_refused(tmp_path: Path) -> None:
    (tmp_path / "near").mkdir()
    secret = tmp_path / "secret.bin"
    secret.write_bytes(bytes(range(16)))
    numbers(tmp_path / "far.h5", (4,))
    with h5py.File(tmp_path / "near" / "a.h5", "w") as file:
        file["x"] = h5py.ExternalLink(str(tmp_path / "far.h5"), "/x")
        file.create_dataset("y", (4,), "<i4", external=[(str(secret), 0, 16)])
    for name in "xy":
        virtual(tmp_path / "near" / f"{name}.h5", (4,), (np.s_[:], "a.h5", name, (4,), None))
        with pytest.raises(ExternalError, match=r"far\.h5|secret\.bin"):
            FORMAT.open(str(tmp_path / "near" / f"{name}.h5"), "", [str(tmp_path / "near")])
    # A link may be allowed; elements in a file of their own are looked for elsewhere by HDF5.
    store = FORMAT.open(str(tmp_path / "near" / "x.h5"), "", [str(tmp_path)])
    assert read_array(store).tolist() == [0, 1, 2, 3]
    with pytest.raises(ExternalError, match="h5repack"):
        FORMAT.open(str(tmp_path / "near" / "y.h5"), "", [str(tmp_path)])


def test_files_that_moved_together(tmp_path: Path) -> None:
    """HDF5 looks beside the virtual dataset for a source whose absolute path is no more."""
    numbers(tmp_path / "a.h5", (4,))
    virtual(tmp_path / "v.h5", (4,), (np.s_[:], "/where/it/was/a.h5", "x", (4,), None))
    ours, theirs = both(tmp_path / "v.h5")
    assert same_bits(ours, theirs)


def test_loops_are_refused(tmp_path: Path) -> None:
    virtual(tmp_path / "a.h5", (4,), (np.s_[:], "b.h5", "v", (4,), None))
    virtual(tmp_path / "b.h5", (4,), (np.s_[:], "a.h5", "v", (4,), None))
    virtual(tmp_path / "c.h5", (4,), (np.s_[:], ".", "/v", (4,), None))
    for name in "abc":
        with pytest.raises(FormatError, match="leads back to itself"):
            FORMAT.open(str(tmp_path / f"{name}.h5"), "", [str(tmp_path)])


def raw_virtual(path: Path, file: bytes, name: bytes, here: Any, there: Any, maximum: Any = None) -> None:
    dcpl = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    dcpl.set_virtual(here, file, name, there)
    with h5py.File(path, "w", libver="latest") as made:
        space = h5py.h5s.create_simple((4,), maximum)
        h5py.h5d.create(made.id, b"v", h5py.h5t.STD_I32LE, space, dcpl)


def test_mappings_that_name_no_certain_elements_are_refused(tmp_path: Path) -> None:
    unlimited = h5py.h5s.UNLIMITED
    numbers(tmp_path / "a.h5", (4,), maxshape=(None,))
    endless = [h5py.h5s.create_simple((4,), (unlimited,)) for _ in range(2)]
    for space in endless:
        space.select_hyperslab((0,), (unlimited,), (1,), (1,))
    raw_virtual(tmp_path / "endless.h5", b"a.h5", b"x", *endless, (unlimited,))
    with pytest.raises(FormatError, match=r"a\.h5::x, which has no end \(H5S_UNLIMITED\)"):
        FORMAT.open(str(tmp_path / "endless.h5"), "", [str(tmp_path)])
    blocks = h5py.h5s.create_simple((4,), (unlimited,))
    blocks.select_hyperslab((0,), (unlimited,), (2,), (2,))
    raw_virtual(tmp_path / "many.h5", b"a%b.h5", b"x", blocks, h5py.h5s.create_simple((2,)), (unlimited,))
    with pytest.raises(FormatError, match=r"a%b\.h5::x, a name that stands for many \(%b\)"):
        FORMAT.open(str(tmp_path / "many.h5"), "", [str(tmp_path)])
    odd = h5py.h5s.create_simple((4,))
    odd.select_hyperslab((0,), (1,), (1,), (1,))
    odd.select_hyperslab((2,), (1,), (1,), (2,), op=h5py.h5s.SELECT_OR)
    raw_virtual(tmp_path / "odd.h5", b"a.h5", b"x", odd, odd)
    with pytest.raises(FormatError, match="it takes irregular elements"):
        FORMAT.open(str(tmp_path / "odd.h5"), "", [str(tmp_path)])
    numbers(tmp_path / "a.h5", (3, 3), name="y")
    square = h5py.h5s.create_simple((3, 3))
    square.select_hyperslab((0, 0), (2, 2))
    raw_virtual(tmp_path / "square.h5", b"a.h5", b"y", h5py.h5s.create_simple((4,)), square)
    with pytest.raises(FormatError, match=r"\[2, 2\] elements as \[4\]"):
        FORMAT.open(str(tmp_path / "square.h5"), "", [str(tmp_path)])


def test_a_percent_sign_in_a_name(tmp_path: Path) -> None:
    numbers(tmp_path / "50%.h5", (4,))
    virtual(tmp_path / "v.h5", (4,), (np.s_[:], "50%%.h5", "x", (4,), None))
    ours, theirs = both(tmp_path / "v.h5")
    assert same_bits(ours, theirs)
    assert ours.tolist() == [0, 1, 2, 3]


def test_a_source_that_changes_during_the_run(tmp_path: Path) -> None:
    """What a virtual dataset is made of is part of what it is."""
    numbers(tmp_path / "a.h5", (64, 4))
    virtual(tmp_path / "v.h5", (64, 4), (np.s_[:], "a.h5", "x", (64, 4), None))
    job = reblock.plan(tmp_path / "v.h5", tmp_path / "o.zarr", chunks=(1, 4), allow_external=[tmp_path])

    def change() -> bool:
        with h5py.File(tmp_path / "a.h5", "r+", locking=False) as file:
            file["x"][...] = 1
        return False

    with pytest.raises(reblock.ChangedError, match=r"a\.h5"):
        reblock.run(job, cancelled=change)
