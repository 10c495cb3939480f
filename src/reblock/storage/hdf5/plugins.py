"""HDF5 filter plugins: loaded from the package hdf5plugin, one by one, and only in the process that reads.

A plugin is code. HDF5 would load every library of a folder, or of HDF5_PLUGIN_PATH, to find out which filter it is.
Here each listed filter names one file of one folder. That file is loaded only in the fork that reads a dataset that
needs it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from importlib.machinery import PathFinder
from typing import Any

from reblock.errors import FormatError
from reblock.storage.hdf5.file import library

#: Filters that may be loaded, with their names in hdf5plugin and its files.
PLUGINS = {
    307: "bzip2",
    32001: "blosc",
    32004: "lz4",
    32008: "bshuf",
    32013: "zfp",
    32015: "zstd",
    32017: "sz",
    32018: "fcidecomp",
    32024: "sz3",
    32026: "blosc2",
    32028: "sperr",
    32033: "htj2k",
}
#: The filter that is also applied here, so that arrays can be read without the plugin.
ZSTD = 32015
#: How to install them.
INSTALL = "pip install 'reblock[filters]'"
_SUFFIXES = (".so", ".dylib")


def stage_name(code: int) -> str:
    """Name of a plugin in a codec; the prefix distinguishes it from other formats' codecs of the same name."""
    return f"hdf5-{PLUGINS[code]}"


def load_plugin(code: int, where: str) -> None:
    """Load a listed filter into this process; FormatError if it is not installed."""
    h5py = library()
    if h5py.h5z.filter_avail(code):
        return
    name = PLUGINS[code]
    start = f"{where} is encoded by HDF5 filter {code} ({name})"
    folder = _folder()
    if folder is None:
        raise missing_plugin(code, where)
    file = _file_of(code)
    if file is None:
        raise FormatError(f"{start}, which the hdf5plugin in {folder} does not have: {INSTALL} --upgrade")
    try:
        _register(h5py, file)
    except (OSError, AttributeError, RuntimeError, ValueError) as error:
        raise FormatError(f"{start}, and {file} cannot be loaded: {error}") from None


def load_plugins(dataset: Any, where: str, *, elements: bool = False) -> int:
    """Load the plugins that an open dataset needs; returns their number.

    One whose filter is also applied here may be missing, unless HDF5 itself has to read `elements`.
    """
    dcpl = dataset.id.get_create_plist()
    codes = [dcpl.get_filter(number)[0] for number in range(dcpl.get_nfilters())]
    needed = [code for code in codes if code in PLUGINS and (elements or code != ZSTD or has_plugin(code))]
    for code in needed:
        load_plugin(code, where)
    return len(needed)


def has_plugin(code: int) -> bool:
    """Whether HDF5 has a filter, or its plugin is installed."""
    return library().h5z.filter_avail(code) or _file_of(code) is not None


def missing_plugin(code: int, where: str) -> FormatError:
    """The error about a plugin that is not installed."""
    return FormatError(f"{where} is encoded by HDF5 filter {code} ({PLUGINS[code]}), a plugin: to read it, {INSTALL}")


def _file_of(code: int) -> str | None:
    """The file of a plugin; None if it is not there."""
    folder = _folder()
    files = (os.path.join(folder or "", f"libh5{PLUGINS[code]}{suffix}") for suffix in _SUFFIXES)
    return None if folder is None else next((file for file in files if os.path.isfile(file)), None)


def _folder() -> str | None:
    """The folder of hdf5plugin's libraries, found without importing the package; relative paths are not searched."""
    spec = PathFinder.find_spec("hdf5plugin", [path for path in sys.path if os.path.isabs(path)])
    places = () if spec is None else spec.submodule_search_locations or ()
    return next((os.path.join(place, "plugins") for place in places), None)


def _register(h5py: Any, file: str) -> None:
    plugin = ctypes.CDLL(file)
    if hasattr(plugin, "init_filter"):
        # It finds HDF5 through the extension module of h5py.
        plugin.init_filter.argtypes, plugin.init_filter.restype = [ctypes.c_char_p], ctypes.c_int
        if plugin.init_filter(os.fsencode(h5py.h5z.__file__)) < 0:
            raise RuntimeError("it does not find HDF5")
    plugin.H5PLget_plugin_info.restype = ctypes.c_void_p
    h5py.h5z.register_filter(plugin.H5PLget_plugin_info())
