"""What may be replaced: an array and nothing else."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import reblock
from reblock.errors import TargetExistsError
from reblock.runs.replace import check_replaceable


@pytest.fixture
def sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray[Any, Any]:
    monkeypatch.chdir(tmp_path)
    data = np.arange(120, dtype="<i4").reshape(12, 10)
    np.save("x.npy", data)
    return data


#: Arrays of every kind, by target and options.
ARRAYS: dict[str, dict[str, Any]] = {
    "y.npy": {},
    "y/": {"chunks": "5,5"},
    "y.zarr": {"chunks": "5,5"},
    "sharded.zarr": {"chunks": "2,5", "shards": "6,10"},
    "two.zarr": {"chunks": "5,5", "to_format": "zarr2"},
    "inner.zarr::a/b": {"chunks": "5,5"},
    "inner2.zarr::a/b": {"chunks": "5,5", "to_format": "zarr2"},
    "y.h5": {"chunks": "5,5", "codec": "gzip:1"},
    "y.h5::a/b": {"chunks": "5,5"},
}


@pytest.mark.parametrize("target", ARRAYS)
def test_an_array_of_ours_is_replaced(sample: np.ndarray[Any, Any], target: str) -> None:
    reblock.repartition("x.npy", target, **ARRAYS[target])
    report = reblock.repartition("x.npy", target, **ARRAYS[target], overwrite=True)
    assert report.write_boxes
    assert np.array_equal(reblock.open(target)[...], sample)


@pytest.mark.usefixtures("sample")
@pytest.mark.parametrize("separator", [".", "/"])
@pytest.mark.parametrize("version", [2, 3])
def test_an_array_of_zarr_python_is_replaced(separator: str, version: int) -> None:
    zarr = pytest.importorskip("zarr")
    name = "default" if version == 3 else "v2"
    array = zarr.create_array(
        "z.zarr",
        shape=(12, 10),
        chunks=(5, 5),
        dtype="i4",
        zarr_format=version,
        chunk_key_encoding={"name": name, "separator": separator},
    )
    array[...] = 1
    check_replaceable("z.zarr")
    Path("z.zarr/notes.txt").write_text("mine")
    with pytest.raises(TargetExistsError, match=r"notes\.txt"):
        check_replaceable("z.zarr")


@pytest.mark.usefixtures("sample")
def test_overwriting_is_advised_only_where_it_is_possible() -> None:
    reblock.repartition("x.npy", "one.h5", chunks="5,5")
    reblock.repartition("x.npy", "two.h5::a", chunks="5,5")
    reblock.repartition("x.npy", "two.h5::b", chunks="5,5")
    with pytest.raises(TargetExistsError, match="or give overwrite=True to replace it"):
        reblock.repartition("x.npy", "one.h5", chunks="6,5")
    with pytest.raises(TargetExistsError, match=r"two\.h5 exists: choose another name$"):
        reblock.repartition("x.npy", "two.h5::a", chunks="6,5")


def _zarr(**more: str) -> Callable[[], None]:
    def make() -> None:
        reblock.repartition("x.npy", "t.zarr", chunks="5,5")
        for name, text in more.items():
            path = Path("t.zarr") / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    return make


def _group() -> None:
    for name in ("one", "two"):
        reblock.repartition("x.npy", f"{name}.zarr::{name}")
    os.rename("two.zarr/two", "one.zarr/two")
    os.rename("one.zarr", "t.zarr")


def _group_attributes() -> None:
    reblock.repartition("x.npy", "t.zarr::a", to_format="zarr2")
    Path("t.zarr/.zattrs").write_text('{"title": "thesis"}')


def _hdf5(change: Callable[[h5py.File], object]) -> Callable[[], None]:
    def make() -> None:
        reblock.repartition("x.npy", "t.h5::a/b")
        with h5py.File("t.h5", "r+") as file:
            change(file)

    return make


def _npy() -> None:
    with open("t.npy", "wb") as file:
        np.save(file, np.arange(3))
        np.save(file, np.arange(4))


def _blocks() -> None:
    reblock.repartition("x.npy", "t/", chunks="5,5")
    Path("t/9_9.npy").write_text("mine")


def _folder() -> None:
    Path("t").mkdir()
    Path("t/thesis.tex").write_text("precious")


def _link() -> None:
    np.save("other.npy", np.arange(3))
    os.symlink("other.npy", "t")


#: What is in the way, the name of the target, and what the message says of it.
IN_THE_WAY: dict[str, tuple[Callable[[], object], str, str]] = {
    "a folder with a thesis": (_folder, "t", "unknown format"),
    "a pipe": (lambda: os.mkfifo("t"), "t", "a pipe"),
    "a link": (_link, "t", "other.npy: name that, or remove the link"),
    "a text": (lambda: Path("t").write_text("precious"), "t", "unknown format"),
    "a zarr with a file": (_zarr(README="mine"), "t.zarr", "README"),
    "a zarr with a file among chunks": (_zarr(c__0__notes="mine"), "t.zarr", "c/0/notes"),
    "a zarr with a folder in place of a chunk": (_zarr(c__1__7__x="mine"), "t.zarr", "c/1/7"),
    "a zarr with chunks of another": (_zarr(c__7__0="mine"), "t.zarr", "c/7"),
    "a zarr group": (_group, "t.zarr", "a zarr group"),
    "a zarr group with attributes": (_group_attributes, "t.zarr", "attributes of the group"),
    "an hdf5 file with two datasets": (_hdf5(lambda file: file.create_dataset("c", data=[1])), "t.h5", "a/b"),
    "an hdf5 file with a group": (_hdf5(lambda file: file.create_group("a/empty")), "t.h5", "/a/empty"),
    "an hdf5 file with a link": (_hdf5(lambda file: file.__setitem__("s", h5py.SoftLink("/a/b"))), "t.h5", "/s"),
    "an hdf5 file with a type": (_hdf5(lambda file: file.__setitem__("k", np.dtype("i4"))), "t.h5", "/k"),
    "an hdf5 file with attributes": (_hdf5(lambda file: file.attrs.update(title="x")), "t.h5", "attributes of /"),
    "two arrays in one npy": (_npy, "t.npy", "bytes after the array"),
    "blocks with a stranger": (_blocks, "t/", "9_9.npy"),
}


def _seen() -> dict[str, bytes]:
    files = [Path(base) / name for base, _, names in os.walk(".") for name in names]
    return {str(path): b"" if path.is_fifo() else path.read_bytes() for path in files}


@pytest.mark.usefixtures("sample")
@pytest.mark.parametrize("case", IN_THE_WAY)
def test_anything_else_stays(case: str) -> None:
    make, target, says = IN_THE_WAY[case]
    make()
    before = _seen()
    inner = "::a/b" if target == "t.h5" else ""
    with pytest.raises(TargetExistsError, match="replaces an array and nothing else") as caught:
        reblock.repartition("x.npy", target + inner, to_format="npy" if target == "t" else None, overwrite=True)
    assert says in str(caught.value)
    assert _seen() == before


@pytest.mark.usefixtures("sample")
def test_a_device_stays() -> None:
    with pytest.raises(TargetExistsError, match="/dev/null is a device"):
        reblock.repartition("x.npy", "/dev/null", to_format="npy", overwrite=True)


@pytest.mark.usefixtures("sample")
def test_many_strangers_are_counted() -> None:
    _zarr(**{f"note{n}": "mine" for n in range(30)})()
    with pytest.raises(TargetExistsError, match="and 25 more"):
        check_replaceable("t.zarr")


def test_what_is_empty_may_go(sample: np.ndarray[Any, Any]) -> None:
    Path("y.npy").touch()
    Path("y.zarr").mkdir()
    for target in ("y.npy", "y.zarr"):
        reblock.repartition("x.npy", target, overwrite=True)
        assert np.array_equal(reblock.open(target)[...], sample)


@pytest.mark.usefixtures("sample")
def test_what_comes_during_the_run_stays() -> None:
    """The old target is looked at once more before it goes."""
    reblock.repartition("x.npy", "y.zarr", chunks="5,5")

    def add(*_: object) -> None:
        Path("y.zarr/thesis").write_text("precious")

    with pytest.raises(TargetExistsError, match="thesis"):
        reblock.repartition("x.npy", "y.zarr", chunks="5,5", overwrite=True, progress=add)
    assert Path("y.zarr/thesis").read_text() == "precious"
    os.unlink("y.zarr/thesis")
    assert reblock.repartition("x.npy", "y.zarr", chunks="5,5", overwrite=True).write_boxes == 0


@pytest.mark.usefixtures("sample")
@pytest.mark.parametrize("target", ["y.zarr", "y/"])
def test_chunks_are_known_by_their_names(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    """A folder with very many chunks takes no look at each."""
    reblock.repartition("x.npy", target, chunks="1,1")
    looked: list[str] = []

    def counting(real: Callable[..., Any]) -> Callable[..., Any]:
        def look(path: str, *more: Any, **options: Any) -> Any:
            looked.append(path)
            return real(path, *more, **options)

        return look

    for name in ("stat", "lstat", "open"):
        monkeypatch.setattr(os, name, counting(getattr(os, name)))
    check_replaceable(target.rstrip("/"))
    assert 0 < len(looked) < 60  # of 120 chunks


# ---------------------------------------------------------------- a slash at the end
@pytest.mark.parametrize("target", ["y.zarr/", "y.h5/", "y.npy/", "y.zarr//"])
def test_a_slash_after_a_known_ending_changes_nothing(sample: np.ndarray[Any, Any], target: str) -> None:
    """As a shell completes the name of a folder."""
    name = target.rstrip("/")
    reblock.repartition("x.npy/", target, chunks="5,5")
    with_slash, without = reblock.info(target), reblock.info(name)
    assert with_slash == without
    assert with_slash["format"] == {"y.zarr": "zarr", "y.h5": "hdf5", "y.npy": "npy"}[name]
    assert sorted(os.listdir()) == ["x.npy", name]
    reblock.repartition(target, f"z{target[1:]}", chunks="4,4", overwrite=True)
    assert np.array_equal(reblock.open(f"z{name[1:]}")[...], sample)
    with pytest.raises(TargetExistsError):
        reblock.repartition("x.npy", target, chunks="5,5")
