"""Loading the compiled library: another version of it is not called, and the report says why."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import reblock
from reblock.engine import native
from reblock.engine.native import loading

SOURCES = Path(loading.__file__).parent

#: The interface by its number: digest of what the headers and exported functions declare, comments left out.
INTERFACES = {1: "f57e5b627b0b7b31", 2: "3ee643081f341b7c"}


def build(folder: Path, text: str) -> str:
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    if not shutil.which(compiler[0]):
        pytest.skip("no C compiler")
    (folder / "x.c").write_text(text)
    subprocess.run([*compiler, "-shared", "-fPIC", str(folder / "x.c"), "-o", str(folder / "x.so")], check=True)
    return str(folder / "x.so")


def test_the_number_is_the_same_on_both_sides() -> None:
    assert f"#define REBLOCK_ABI {loading.ABI}\n" in (SOURCES / "moves.h").read_text()


def test_another_interface_has_another_number() -> None:
    """A change of a structure or of an exported function needs a new number: raise REBLOCK_ABI and ABI, add a line."""
    declared = []
    for path in sorted(SOURCES.glob("*.[ch]")):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)
        if path.name in ("moves.h", "decoder.h", "looking.c"):
            declared += re.findall(r"typedef struct \{.*?\} \w+;|typedef \w+ \(\*.*?;", text, re.DOTALL)
        declared += re.findall(r"^int(?:64_t)? reblock_\w+\([^)]*\)", text, re.MULTILINE)
    plain = " ".join(" ".join(declared).split())
    assert "reblock_settle" in plain
    assert "} Batch;" in plain
    assert INTERFACES[loading.ABI] == hashlib.sha256(plain.encode()).hexdigest()[:16]


def test_a_library_that_is_not_there(tmp_path: Path) -> None:
    assert loading.load(str(tmp_path / "no.so")).functions is None
    assert "was not built" in loading.load(str(tmp_path / "no.so")).reason


def test_a_library_that_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "x.so").write_bytes(b"no library")
    assert loading.load(str(tmp_path / "x.so")).functions is None
    assert "cannot be loaded" in loading.load(str(tmp_path / "x.so")).reason


def test_a_library_without_a_number(tmp_path: Path) -> None:
    found = loading.load(build(tmp_path, "int reblock_read(void) { return 0; }"))
    assert found.functions is None
    assert "another version" in found.reason
    assert "reblock_abi" in found.reason


def everything(number: int, *, without: str = "") -> str:
    names = [name for name in loading._FUNCTIONS if name != without]
    functions = "".join(f"int {name}(void) {{ __builtin_trap(); }}\n" for name in names)
    return f"long long reblock_abi(void) {{ return {number}; }}\n{functions}"


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        (everything(loading.ABI + 1), f"interface {loading.ABI + 1} where {loading.ABI} is expected"),
        (everything(loading.ABI, without="reblock_decode"), "reblock_decode"),
    ],
    ids=["number", "symbol"],
)
def test_another_library_is_not_called(text: str, detail: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = loading.load(build(tmp_path, text))
    assert other.functions is None
    monkeypatch.setattr(loading, "load", lambda: other)
    assert native.library() is None
    np.save(tmp_path / "x.npy", np.arange(60).reshape(5, 12))
    report = reblock.repartition(tmp_path / "x.npy", tmp_path / "y.zarr", chunks=(2, 5), codec="zstd:1")
    assert report.engine == "numpy"
    (note,) = (note for note in report.notes if note.startswith("engine: numpy"))
    assert detail in note
    assert np.array_equal(reblock.open(tmp_path / "y.zarr")[...], np.arange(60).reshape(5, 12))


def test_arrays_of_too_many_axes_are_moved_by_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.arange(60).reshape(3, 4, 5)
    np.save(tmp_path / "x.npy", data)
    monkeypatch.setattr(native, "MAX_AXES", 2)
    monkeypatch.setattr(native.Moves, "__init__", None)
    reblock.repartition(tmp_path / "x.npy", tmp_path / "y.npy", transpose=(2, 0, 1))
    assert np.array_equal(np.load(tmp_path / "y.npy"), data.transpose(2, 0, 1))
