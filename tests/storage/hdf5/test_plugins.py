"""Filters of HDF5 that are plugins: one file of hdf5plugin's folder each, in the process that reads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import h5py
import numpy as np
import pytest

import reblock
from reblock.errors import FormatError
from reblock.model.store import TransferMode
from reblock.storage.hdf5 import plugins as hdf5_plugins
from reblock.storage.hdf5.format import FORMAT
from reblock.testing.arrays import same_bits

installed = pytest.mark.skipif(find_spec("hdf5plugin") is None, reason="hdf5plugin is not installed")
#: Makes a dataset for each filter in a.h5, and what hdf5plugin reads of it in NAME.npy; its own process, since the
#: import registers all filters.
MAKE = """
import sys, h5py, hdf5plugin, numpy as np
settings = {"zfp": {"reversible": True}, "sz": {"absolute": 0.1}, "sz3": {"absolute": 0.1}}
floats = np.cumsum(np.random.default_rng(1).standard_normal((50, 40)), 0).astype("<f4")
bytes_ = (np.arange(2000).reshape(50, 40) % 251).astype("u1")
with h5py.File(sys.argv[1] + "/a.h5", "w") as file:
    for kind in hdf5plugin.get_filters():
        name = kind.filter_name
        data = bytes_ if name in ("fcidecomp", "htj2k") else floats
        try:
            file.create_dataset(name, data=data, chunks=(32, 32), **kind(**settings.get(name, {})))
        except ValueError:
            pass  # some plugins do not work with every HDF5
with h5py.File(sys.argv[1] + "/a.h5") as file:
    for name, dataset in file.items():
        np.save(f"{sys.argv[1]}/{name}.npy", dataset[...])
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugins")
    subprocess.run([sys.executable, "-c", MAKE, str(folder)], check=True)
    return folder


def coded(path: Path, code: int) -> Path:
    """A dataset that says that it is encoded by some filter."""
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(60), chunks=(20,), compression="gzip")
    data = path.read_bytes()
    place = data.index(b"\x01\x00\x08\x00\x01\x00\x01\x00deflate\0")
    path.write_bytes(data[:place] + code.to_bytes(2, "little") + data[place + 2 :])
    return path


@installed
def test_all_filters_of_hdf5plugin_are_read(made: Path, tmp_path: Path) -> None:
    with h5py.File(made / "a.h5") as file:
        names = set(file)
    # What a newer hdf5plugin has is not on the list yet; what the list has is read.
    assert names >= {"blosc", "blosc2", "bshuf", "bzip2", "lz4", "zfp", "zstd"}
    # zstd is also applied without its plugin, see `test_zstd`.
    for name in names & set(hdf5_plugins.PLUGINS.values()) - {"zstd"}:
        location = f"{made / 'a.h5'}::{name}"
        store = FORMAT.open(str(made / "a.h5"), name)
        assert (store.reads, store.encoding) == (TransferMode.BOX, "")
        assert store.schema.codec.names == (f"hdf5-{name}",)
        report = reblock.repartition(location, tmp_path / f"{name}.zarr", chunks=(10, 40))
        assert any(f"filter hdf5-{name}" in note for note in report.notes)
        assert same_bits(np.asarray(reblock.open(tmp_path / f"{name}.zarr")[...]), np.load(made / f"{name}.npy"))


@installed
def test_nothing_is_loaded_here(made: Path) -> None:
    program = (
        "import sys, reblock\n"
        f"reblock.open({str(made / 'a.h5') + '::blosc'!r})[...]\n"
        "assert 'hdf5plugin' not in sys.modules\n"
        "assert 'libh5' not in open('/proc/self/maps').read()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_without_the_extra_the_error_says_what_to_install(tmp_path: Path) -> None:
    """A folder of hdf5plugin that is only relative to where we are is none."""
    folder = tmp_path / "hdf5plugin" / "plugins"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    path = coded(tmp_path / "a.h5", 32001)
    program = (
        "import sys, site, importlib.machinery\n"
        "import reblock.storage.hdf5.plugins as plugins\n"
        "from reblock.storage.hdf5.format import FORMAT\n"
        # As if it were not installed: only paths that do not have it.
        "sys.path[:] = [p for p in sys.path if not __import__('os').path.isdir(p + '/hdf5plugin')] + ['']\n"
        "print(plugins._folder())\n"
    )
    run = [sys.executable, "-c", program]
    assert subprocess.run(run, cwd=tmp_path, capture_output=True, check=True, text=True).stdout == "None\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hdf5_plugins, "_folder", lambda: None)
        with pytest.raises(FormatError, match=r"filter 32001 \(blosc\), a plugin: .* pip install 'reblock\[filters\]'"):
            hdf5_plugins.load_plugin(32001, str(path))


def test_an_hdf5plugin_without_the_filter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdf5_plugins, "_folder", lambda: str(tmp_path))
    with pytest.raises(FormatError, match=r"32004 \(lz4\), which the hdf5plugin in .* does not have: pip install"):
        hdf5_plugins.load_plugin(32004, "a.h5::x")
    (tmp_path / "libh5lz4.so").write_bytes(b"no library")
    with pytest.raises(FormatError, match=r"libh5lz4.so cannot be loaded"):
        hdf5_plugins.load_plugin(32004, "a.h5::x")


def test_filters_that_are_not_on_the_list_are_not_looked_for(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"filter 32009 \(deflate\), which is not supported"):
        FORMAT.open(str(coded(tmp_path / "a.h5", 32009)), "")


@installed
# SZ and SZ3 take any bytes for elements.
@pytest.mark.parametrize("code", sorted(code for code in hdf5_plugins.PLUGINS if code not in (32017, 32024)))
def test_chunks_that_no_plugin_made(tmp_path: Path, code: int) -> None:
    """A plugin that fails or crashes on what it is given takes no one with it."""
    with pytest.raises(reblock.CorruptError):
        reblock.open(coded(tmp_path / "a.h5", code))[...]


@installed
def test_plugins_of_the_environment_are_not_loaded(made: Path, tmp_path: Path) -> None:
    """What HDF5_PLUGIN_PATH has for the same filter is left alone."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler to make a plugin with")
    source = "#include <fcntl.h>\n__attribute__((constructor)) static void f(void) { creat(MARK, 0600); }\n"
    (tmp_path / "p.c").write_text(source)
    mark = tmp_path / "mark"
    build = [compiler, "-shared", "-fPIC", f'-DMARK="{mark}"', "-o", str(tmp_path / "libh5lz4.so")]
    subprocess.run([*build, str(tmp_path / "p.c")], check=True)
    environment = {**os.environ, "HDF5_PLUGIN_PATH": str(tmp_path), "LD_LIBRARY_PATH": str(tmp_path)}
    program = f"import reblock; reblock.open({str(made / 'a.h5') + '::lz4'!r})[...]"
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)
    assert not mark.exists()
