"""The registry of formats: ours in a table, others by entry point; nothing is imported until it is used.

Other authors add a format in their own pyproject.toml ::

    [project.entry-points."reblock.formats"]
    myformat = "my_package.my_format:FORMAT"

and tests it with `reblock.testing.contract.FormatContract`.
"""

from __future__ import annotations

import builtins
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from errno import ENOENT
from functools import lru_cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from operator import attrgetter
from typing import Any

from reblock.errors import DiskError, FormatError, StorageError, UsageError, option
from reblock.model.dataset import GroupFormat, TreeFormat, TreeStore
from reblock.model.medium import Medium
from reblock.model.store import Format, Store, Varied
from reblock.storage.location import Location
from reblock.storage.media.blocks import probed
from reblock.storage.media.files import disk_errors
from reblock.storage.media.local import LOCAL
from reblock.storage.media.postgres_url import is_database
from reblock.storage.media.registry import medium_of
from reblock.storage.media.small import exists, is_folder
from reblock.storage.signatures import recognise

#: Entry point group of formats.
GROUP = "reblock.formats"


@dataclass(frozen=True, slots=True)
class FormatEntry:
    """A format that can be loaded by name."""

    name: str
    """As in `--from` and `--to`."""
    target: str
    """`module:attribute` of the Format."""
    suffixes: tuple[str, ...] | None = None
    """File name endings, known without importing the format; None = load it to find out."""
    needs: tuple[str, ...] = ()
    """Libraries that it needs; they are searched for, but not imported."""
    install: str = "pip install reblock"
    """How to install what is missing."""
    database: bool = False
    """Whether its arrays are in databases, and all arrays in databases are of this format unless another is named."""


_OWN = (
    FormatEntry("npy", "reblock.storage.npy.format:FORMAT", (".npy",)),
    FormatEntry("blocks", "reblock.storage.blocks.format:FORMAT", ()),
    FormatEntry("rawblocks", "reblock.storage.blocks.format:FORMAT_RAW", ()),
    FormatEntry("fileblocks", "reblock.storage.fileblocks.format:FORMAT", ()),
    FormatEntry(
        "zarr", "reblock.storage.zarr.format:FORMAT", (".zarr",), ("numcodecs",), "pip install 'numcodecs>=0.16.6'"
    ),
    FormatEntry("zarr2", "reblock.storage.zarr.format:FORMAT2", (), ("numcodecs",), "pip install 'numcodecs>=0.16.6'"),
    FormatEntry(
        "minc",  # before the formats that its files are in
        "reblock.storage.minc.format:FORMAT",
        (".mnc",),
        ("h5py", "numcodecs"),
        "pip install h5py numcodecs",
    ),
    FormatEntry(
        "netcdf",
        "reblock.storage.netcdf.format:FORMAT",
        (".nc", ".nc4", ".cdf"),
        ("h5py", "numcodecs"),
        "pip install h5py numcodecs",
    ),
    FormatEntry(
        "hdf5",
        "reblock.storage.hdf5.format:FORMAT",
        (".h5", ".hdf5", ".he5"),
        ("h5py", "numcodecs"),
        "pip install h5py numcodecs",
    ),
    FormatEntry("netcdf3", "reblock.storage.netcdf.format:FORMAT3", (".nc3",)),
    FormatEntry(
        "nifti", "reblock.storage.nifti.format:FORMAT", (".nii",), ("nibabel",), "pip install 'reblock[neuro]'"
    ),
    FormatEntry(
        "nifti_gz",
        "reblock.storage.nifti.format:FORMAT_GZ",
        (".nii.gz",),
        ("nibabel", "indexed_gzip"),
        "pip install 'reblock[neuro]'",
    ),
    FormatEntry(
        "tiff",
        "reblock.storage.tiff.format:FORMAT",
        (".tif", ".tiff"),
        ("tifffile",),
        "pip install 'reblock[tiff]'",
    ),
    FormatEntry(
        "ometiff",
        "reblock.storage.tiff.format:FORMAT_OME",
        (".ome.tif", ".ome.tiff"),
        ("tifffile",),
        "pip install 'reblock[tiff]'",
    ),
    FormatEntry(
        "postgres",
        "reblock.storage.postgres.format:FORMAT",
        (),
        ("psycopg",),
        "pip install 'reblock[postgres]'",
        database=True,
    ),
)


#: Opens many arrays as one; it needs this module.
_JOINED = "reblock.storage.joined.trees"


def is_joined(location: str | os.PathLike[str]) -> bool:
    """Whether a location is one of many arrays."""
    return os.fspath(location).startswith(("concat://", "stack://"))


def formats() -> tuple[str, ...]:
    """Names of all formats, our own first."""
    return tuple(_table())


def file_formats() -> tuple[str, ...]:
    """Names of the formats whose arrays are not in databases; those of databases need a library that is an extra."""
    return tuple(name for name, known in _table().items() if not known.database)


def get(name: str) -> Format:
    """A format by its name; UsageError if it is unknown or its library is missing."""
    table = _table()
    plain, _, said = name.partition(":")
    if plain not in table:
        raise UsageError(f"unknown format {name!r}: use one of {', '.join(table)}")
    found = _load(table[plain])
    if not said:
        return found
    if not isinstance(found, Varied):
        raise UsageError(f"unknown format {name!r}: {plain} has no variants")
    return found.variant(said)


def suffixes_of(name: str) -> tuple[str, ...]:
    """File name endings of a format, as far as they are known without its library."""
    return _table()[name].suffixes or ()


def named(word: str) -> str | None:
    """Name of the format that a word names, by its name or by an ending such as `nii`; None if there is none."""
    return word if word in _table() else _by_suffix(f"array.{word}")


def detect(path: str, *, looking: Medium | None = None) -> Format:
    """The format of the file or folder at a path: by content, then by ending.

    `looking` is the medium as it was used to look at the path a moment ago, which may remember what it saw.
    """
    medium = looking or probed(medium_of(path))
    with disk_errors("open", path):
        found = medium.status(path)
    if (name := _of_database(path)) is not None:
        return get(name)
    broken: list[str] = []
    trouble: StorageError | None = None
    for known in _table().values():
        if known.database:
            continue
        try:
            candidate = _load(known)
        except UsageError as error:
            broken.append(error.message)
            continue
        try:
            if candidate.probe(path, **elsewhere(medium)):
                return candidate
        except StorageError as error:
            trouble = trouble or error
        except Exception as error:  # noqa: BLE001 - another author's mistake must not hide other formats
            broken.append(f"format {known.name} failed: {error!r}")
    if trouble is not None:
        raise trouble
    if stranger := recognise(path, medium=medium):
        raise FormatError(stranger)
    guess = _by_suffix(path) or ("blocks" if _bare_blocks(medium, path) else None)
    if guess is not None:
        # Opening it gives a better error message.
        return get(guess)
    missing = f" ({'; '.join(broken)})" if broken else ""
    names = ", ".join(file_formats())
    raise FormatError(f"{path}: {found.kind} of unknown format; name it with {option('from_format')}: {names}{missing}")


def for_target(path: str, to: str | None = None) -> Format:
    """The format of a new array: as requested, else by the path's ending."""
    if to is not None:
        return get(to)
    name = _of_database(path) or _by_suffix(path)
    if name is None and (group := _group_above(path)) is not None:
        return group
    if name is None and path.endswith("/"):
        return get("blocks")
    if name is None:
        endings = ", ".join(f"{suffix} ({known.name})" for known in _OWN for suffix in known.suffixes or ())
        raise UsageError(
            f"{path}: the format of a new array is not clear; end the name in {endings} or / (blocks), "
            f"or name it with {option('to_format')}: {', '.join(file_formats())}"
        )
    return get(name)


def _group_above(path: str) -> Format | None:
    """The format of the group in whose folder a path is."""
    above, medium = os.path.dirname(path.rstrip("/")), medium_of(path)
    if not above or not exists(medium, above):
        return None
    try:
        found = detect(above)
    except (StorageError, UsageError):
        return None
    return found.group_format(above, **elsewhere(medium)) if isinstance(found, GroupFormat) else None


def locate(text: str | os.PathLike[str]) -> Location:
    """Parse a location; a slash after a known ending was added by shell completion and is dropped."""
    where = Location.parse(text)
    ended = where.is_folder and (_by_suffix(where.path) or is_database(where.path))
    return replace(where, path=where.path.rstrip("/")) if ended else where


def open(  # noqa: A001 - the verb of the registry
    location: str | os.PathLike[str], format: str | None = None, allow: Sequence[str] = ()
) -> Store:
    """Open an array at `PATH[::INNER]` for reading; its files may also be in the folders in `allow`."""
    if is_joined(location):
        many: Store = import_module(_JOINED).open_joined_text(str(location), format, allow)
        return many
    kind, where, more = _find(location, format)
    # Another author's format may be older than this argument.
    return kind.open(where.path, where.inner, allow, **more) if allow else kind.open(where.path, where.inner, **more)


def open_tree(location: str | os.PathLike[str], format: str | None = None, allow: Sequence[str] = ()) -> TreeStore:
    """Open all arrays at `PATH[::GROUP]` for reading; UsageError if the format holds single arrays only."""
    if is_joined(location):
        many: TreeStore = import_module(_JOINED).open_joined_tree(str(location), format, allow)
        return many
    kind, where, more = _find(location, format)
    if not isinstance(kind, TreeFormat):
        raise UsageError(f"{where}: a {kind.name} file or folder holds one array, not a dataset")
    return kind.open_tree(where.path, where.inner, allow, **more)


def _find(location: str | os.PathLike[str], format: str | None) -> tuple[Format, Location, dict[str, Any]]:
    """The format of an existing location, and the argument for its medium."""
    where = locate(location)
    medium = medium_of(where.path)
    looking = probed(medium)
    if not is_database(where.path):
        try:
            with disk_errors("open", where.path):
                looking.status(where.path, follow=False)
        except DiskError as error:
            if error.errno == ENOENT and set("*?[") & set(where.path):
                error.add(f"a pattern of several files needs {option('concat')} or {option('stack')}")
            raise
    # Only a database can tell which arrays it holds instead.
    found = _of_database(where.path)
    kind = get(format) if format is not None else detect(where.path, looking=looking) if found is None else get(found)
    return kind, where, elsewhere(medium)


def elsewhere(medium: Medium) -> dict[str, Any]:
    """The argument for a medium other than local files; another author's format may be older than it."""
    return {} if medium is LOCAL else {"medium": medium}


# ---------------------------------------------------------------- the table
def _table() -> dict[str, FormatEntry]:
    """Every format by name; ours cannot be replaced."""
    own = {known.name: known for known in _OWN}
    return own | {known.name: known for known in _others(tuple(sys.path)) if known.name not in own}


@lru_cache(maxsize=8)
def _others(path: tuple[str, ...]) -> tuple[FormatEntry, ...]:
    """Formats of other distributions on the path."""
    if not _announced(path):
        return ()
    from importlib.metadata import entry_points

    return tuple(
        FormatEntry(
            entry.name,
            f"{entry.module}:{entry.attr}",
            install="repair " + (f"the package {entry.dist.name}" if entry.dist else "the package that provides it"),
        )
        for entry in entry_points(group=GROUP)
    )


def _announced(path: tuple[str, ...]) -> bool:
    """Whether another distribution may provide formats.

    Loading and using `importlib.metadata` takes 30 ms. This reads the same files without it, and returns True if
    distributions may be stored in another way: in an archive, or by a custom finder.
    """
    if any(hasattr(finder, "find_distributions") for finder in sys.meta_path if finder is not PathFinder):
        return True
    for folder in path:
        try:
            with os.scandir(folder or ".") as entries:
                found = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
        except NotADirectoryError:
            return True
        except OSError:
            continue
        for metadata in found:
            if not os.path.basename(metadata).startswith("reblock-") and _brings_formats(metadata):
                return True
    return False


def _brings_formats(metadata: str) -> bool:
    """Whether a distribution's metadata folder names entry points of our group."""
    try:
        with builtins.open(os.path.join(metadata, "entry_points.txt"), "rb") as file:
            return GROUP.encode() in file.read()
    except OSError:
        return False


def _load(known: FormatEntry) -> Format:
    module, _, attribute = known.target.partition(":")
    try:
        for library in known.needs:
            if not _is_installed(library, find_spec, tuple(sys.path)):
                raise ModuleNotFoundError(name=library)
        found: Format = attrgetter(attribute)(import_module(module))
    except ImportError as error:
        needs = f"the module {error.name}" if error.name else "a module"
        raise UsageError(f"format {known.name} needs {needs}, which cannot be loaded: {known.install}") from error
    except Exception as error:  # another author's module may raise anything, which must not hide other formats
        raise UsageError(f"format {known.name} cannot be loaded: {error!r}; {known.install}") from error
    return found


@lru_cache(maxsize=256)
def _is_installed(library: str, find: Callable[[str], object], path: tuple[str, ...]) -> bool:  # noqa: ARG001 - a key
    """Whether a library can be imported; kept, because the formats of many files may be detected."""
    return find(library) is not None


def _of_database(path: str) -> str | None:
    """Name of the format of arrays in databases, if a path is the URL of one."""
    return next((known.name for known in _OWN if known.database), None) if is_database(path) else None


def _by_suffix(path: str) -> str | None:
    """Name of the format whose ending matches a path; the longest ending wins."""
    name = os.path.basename(path.rstrip("/")).lower()
    best: tuple[int, str] | None = None
    for known in _table().values():
        for suffix in _suffixes(known):
            if name.endswith(suffix.lower()) and (best is None or len(suffix) > best[0]):
                best = (len(suffix), known.name)
    return best[1] if best else None


def _suffixes(known: FormatEntry) -> tuple[str, ...]:
    if known.suffixes is not None:
        return known.suffixes
    try:
        return tuple(_load(known).suffixes)
    except UsageError:
        return ()


def _bare_blocks(medium: Medium, path: str) -> bool:
    """Whether a folder holds block files without a manifest."""
    if not is_folder(medium, path):
        return False
    with disk_errors("read", path):
        return any(name.endswith((".npy", ".bin")) for name, _ in medium.entries(path))
