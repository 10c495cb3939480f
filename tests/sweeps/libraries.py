"""Arrays written and read by the libraries of their formats: numpy, h5py, zarr-python; none of reblock's code."""

from __future__ import annotations

import gzip
import json
import random
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import h5py
import nibabel
import numcodecs
import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, TransposeCodec, ZstdCodec

Array = npt.NDArray[Any]
#: Suffix of each format that a random job may have on either side.
SUFFIXES = {"npy": ".npy", "blocks": "", "zarr2": ".zarr", "zarr": ".zarr", "hdf5": ".h5"}
#: The same for formats that lack some types.
VOLUMES = {"nifti": ".nii", "nifti_gz": ".nii.gz"}


def bits(array: Array) -> bytes:
    """The elements in C order and little-endian, bit by bit."""
    array = np.asarray(array)
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and not np.little_endian):
        array = array.byteswap().view(array.dtype.newbyteorder())
    return array.tobytes()


# ---------------------------------------------------------------- reading
def read(where: str) -> Array:
    """The whole array, as the library of its format reads it."""
    path, _, inner = where.partition("::")
    if path.endswith(".npy"):
        return np.asarray(np.load(path))
    if path.endswith(".h5"):
        with h5py.File(path) as file:
            return np.asarray(file[inner or "data"][()])
    if path.endswith(tuple(VOLUMES.values())):
        image: Any = nibabel.load(path)
        return np.asarray(image.dataobj.get_unscaled())
    if path.endswith(".zarr"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(zarr.open_array(path, mode="r")[...])
    return _read_blocks(Path(path))


def _read_blocks(folder: Path) -> Array:
    manifest = json.loads((folder / "reblock.json").read_text())
    shape = tuple(manifest["shape"])
    out = np.empty(shape, manifest["dtype"])
    if not out.size:
        return out
    starts = [_cuts(cut, length) for cut, length in zip(manifest["chunks"], shape, strict=True)]
    for index in product(*(range(len(one) - 1) for one in starts)):
        box = tuple(slice(one[i], one[i + 1]) for one, i in zip(starts, index, strict=True))
        out[(*box, ...)] = np.load(folder / ("_".join(map(str, index or (0,))) + ".npy"))
    return out


def _cuts(cut: int | list[int], length: int) -> list[int]:
    lengths = cut if isinstance(cut, list) else [min(cut, length - start) for start in range(0, length, cut)]
    return [0, *(int(n) for n in np.cumsum(lengths))]


def chunk_bytes(where: str) -> list[tuple[str, int, int]]:
    """File, first byte and length of everything that is stored of an array's chunks, by the format's library."""
    path, _, inner = where.partition("::")
    if path.endswith(".h5"):
        with h5py.File(path) as file:
            found = file[inner or "data"].id
            if found.get_offset() is not None:
                return [(path, found.get_offset(), found.get_storage_size())]
            if not found.get_num_chunks():
                return []
            infos = [found.get_chunk_info(number) for number in range(found.get_num_chunks())]
            return [(path, info.byte_offset, info.size) for info in infos]
    if path.endswith(tuple(VOLUMES.values())):
        # The header is no chunk; that of a compressed file ends somewhere in the first half.
        size = Path(path).stat().st_size
        start = size // 2 if path.endswith(".gz") else nibabel.load(path).dataobj.offset
        return [(path, start, size - start)] if 0 not in nibabel.load(path).shape else []
    files = [Path(path)] if path.endswith(".npy") else [one for one in Path(path).rglob("*") if one.is_file()]
    files = [one for one in files if not one.name.startswith((".z", "zarr.json", "reblock.json"))]
    heads = [np.load(one, mmap_mode="r").offset if one.suffix == ".npy" and one.stat().st_size else 0 for one in files]
    return [(str(one), head, one.stat().st_size - head) for one, head in zip(files, heads, strict=True)]


# ---------------------------------------------------------------- writing
def write(chance: random.Random, kind: str, folder: Path, array: Array) -> str:
    """Store an array in a random way that the format has; gives its location."""
    path = folder / f"source{(SUFFIXES | VOLUMES)[kind]}"
    if kind in VOLUMES:
        return _write_nifti(chance, path, array)
    if kind == "npy":
        np.save(path, np.asarray(array, order=chance.choice("CF")))
        return str(path)
    if kind == "blocks":
        return _write_blocks(chance, path, array)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of types that are in no specification yet
        return {"hdf5": _write_hdf5, "zarr2": _write_zarr2, "zarr": _write_zarr3}[kind](chance, path, array)


def pick_chunks(chance: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A chunk length per axis: any, but seldom so short that there are thousands of chunks."""
    return tuple(chance.randint(max(n // 8, 1), max(n, 1) + (chance.random() < 0.2)) for n in shape)


def _write_blocks(chance: random.Random, folder: Path, array: Array) -> str:
    folder.mkdir()
    cuts: list[list[int]] = []
    for length in array.shape:
        inside = chance.sample(range(1, length), min(chance.randint(0, 4), length - 1)) if length > 1 else []
        cuts.append([0, *sorted(inside), length])
    for index in product(*(range(len(one) - 1 if one[-1] else 0) for one in cuts)):
        box = tuple(slice(one[i], one[i + 1]) for one, i in zip(cuts, index, strict=True))
        np.save(folder / ("_".join(map(str, index or (0,))) + ".npy"), array[(*box, ...)].copy(order="C"))
    manifest = {
        "reblock": 1,
        "shape": array.shape,
        "dtype": array.dtype.str,
        "chunks": [np.diff(one).tolist() if one[-1] else 1 for one in cuts],
        "files": "{index}.npy",
        "offset": 128,  # of numpy's header, where shapes are short
    }
    (folder / "reblock.json").write_text(json.dumps(manifest))
    return str(folder)


def _stored_part(chance: random.Random, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """What is written: mostly all, else a box of it, so that chunks outside are not stored."""
    if chance.random() < 0.7 or not all(shape):
        return (...,)
    starts = [chance.randrange(n) for n in shape]
    return (*(slice(start, chance.randint(start + 1, n)) for start, n in zip(starts, shape, strict=True)), ...)


def _fill(chance: random.Random, array: Array) -> Any:
    """Zero, or an element of the array."""
    return array.dtype.type(0) if chance.random() < 0.5 or not array.size else chance.choice(array.reshape(-1)[:100])


def _write_nifti(chance: random.Random, path: Path, array: Array) -> str:
    kind: Any = chance.choice([nibabel.Nifti1Header, nibabel.Nifti2Header])
    header = kind(endianness=">" if array.dtype.byteorder == ">" else "<")
    header.set_data_dtype(array.dtype)
    header.set_data_shape(array.shape)
    header["vox_offset"] = offset = len(header.binaryblock) + 4 + 16 * chance.randint(0, 3)
    data = header.binaryblock.ljust(offset, b"\0") + array.tobytes(order="F")
    path.write_bytes(gzip.compress(data, chance.randint(0, 9)) if path.suffix == ".gz" else data)
    return str(path)


def _write_hdf5(chance: random.Random, path: Path, array: Array) -> str:
    options: dict[str, Any] = {}
    if array.ndim and array.size and chance.random() < 0.85:
        options["chunks"] = tuple(map(min, pick_chunks(chance, array.shape), array.shape))
        options["compression"] = chance.choice([None, None, "gzip", "lzf"])
        options["shuffle"] = chance.random() < 0.4
        options["fletcher32"] = chance.random() < 0.3
        if chance.random() < 0.5:
            options["maxshape"] = tuple(chance.choice([n, n, None, n + 3]) for n in array.shape)
    if array.ndim:
        options["fillvalue"] = _fill(chance, array)
    part = _stored_part(chance, array.shape)
    with h5py.File(path, "w", libver=chance.choice(["earliest", "v110", "latest"])) as file:
        made = file.create_dataset("data", array.shape, array.dtype, **options)
        if array.size:
            made[part] = array[part]
    return f"{path}::data"


def _write_zarr2(chance: random.Random, path: Path, array: Array) -> str:
    compressor = chance.choice(
        [
            None, None, numcodecs.Zlib(2), numcodecs.GZip(1), numcodecs.Zstd(3), numcodecs.LZ4(),
            numcodecs.Blosc(chance.choice(["lz4", "zstd", "zlib", "blosclz"]), 3, chance.choice([0, 1, 2])),
        ]
    )  # fmt: skip
    made = zarr.create_array(
        str(path), shape=array.shape, dtype=array.dtype, chunks=pick_chunks(chance, array.shape), zarr_format=2,
        compressors=compressor, filters=None, order=chance.choice("CF"), fill_value=_fill(chance, array),
        chunk_key_encoding={"name": "v2", "separator": chance.choice("./")},
    )  # fmt: skip
    part = _stored_part(chance, array.shape)
    made[part] = array[part]
    return str(path)


def _write_zarr3(chance: random.Random, path: Path, array: Array) -> str:
    compressors: list[Any] = [
        *chance.choice(
            [[], [], [ZstdCodec(level=3, checksum=chance.random() < 0.5)], [GzipCodec(level=2)],
             [BloscCodec(typesize=array.itemsize, cname=chance.choice(["lz4", "zstd", "zlib"]), clevel=3,
                         shuffle=chance.choice(["noshuffle", "shuffle", "bitshuffle"]))]]
        ),
        *([Crc32cCodec()] if chance.random() < 0.3 else []),
    ]  # fmt: skip
    order = chance.sample(range(array.ndim), array.ndim)
    filters = [TransposeCodec(order=tuple(order))] if array.ndim and chance.random() < 0.3 else None
    chunks, shards = pick_chunks(chance, array.shape), None
    if array.ndim and chance.random() < 0.4:
        shards = tuple(n * chance.randint(1, 3) for n in chunks)
    made = zarr.create_array(
        str(path), shape=array.shape, dtype=array.dtype, chunks=chunks, shards=shards, compressors=compressors or None,
        filters=filters, fill_value=_fill(chance, array),
        chunk_key_encoding={"name": "default", "separator": chance.choice("./")},
    )  # fmt: skip
    part = _stored_part(chance, array.shape)
    made[part] = array[part]
    return str(path)
