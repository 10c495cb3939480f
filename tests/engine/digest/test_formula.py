"""The digest: the same however elements are cut, ordered and stored, and another one for other elements."""

from __future__ import annotations

import ctypes
import os
import random
import re
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reblock.engine.digest import formula as digest
from reblock.engine.digest import reference_sums, sums, text
from reblock.engine.native import component, library
from reblock.model import Sums

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "reference" / "digest.md"
DTYPES = [
    *("b1", "i1", "u1", "<i2", ">i2", "<f2", ">f2", "<u4", ">u4", "<f4", ">f4", "<i8", ">i8", "<f8", ">f8"),
    *("<c8", ">c8", "<c16", ">c16", "<g", ">g", "<G", ">G", "<M8[ns]", ">M8[D]", "<m8[s]", ">m8[s]"),
    *("<U1", ">U1", "<U3", ">U5", "S1", "S2", "S3", "S4", "S6", "S40", "S41", "V7", "V8", "V12", "V64"),
]
compiled = pytest.mark.skipif(library() is None, reason="the compiled loop was not built: no C compiler")


# ---------------------------------------------------------------- the same, by hand
def by_hand(array: np.ndarray, origin: tuple[int, ...], shape: tuple[int, ...]) -> Sums:
    """The formula in Python's integers, element by element."""
    first = second = 0
    width = -(-array.itemsize // 4)
    for index in np.ndindex(array.shape):
        data = np.ascontiguousarray(array.view(f"V{array.itemsize}")[index]).tobytes()
        if size := component(array.dtype):
            data = b"".join(data[at : at + size][::-1] for at in range(0, len(data), size))
        element = 0
        for start, step, length in zip(origin, index, shape, strict=True):
            element = element * length + start + step
        for number in range(width):
            word = int.from_bytes(data[4 * number : 4 * number + 4], "little")
            a, b = scrambled(word, element * width + number)
            first, second = first + a, second + b
    return Sums(first % 2**64, second % 2**64)


def scrambled(word: int, position: int) -> tuple[int, int]:
    high, low = divmod(position, 2**32)
    z = (high + 1) * 0x9E3779B97F4A7C15 % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    z ^= z >> 31
    k1 = (low * 0x9E3779B1 + z) % 2**32
    k2 = (low * 0x85EBCA77 + (z >> 32)) % 2**32
    return scramble(word ^ k1, k2, 16, 0x21F0AAAD, 0xD35A2D97), scramble(word ^ k2, k1, 15, 0xD168AAAD, 0xAF723597)


def scramble(x: int, key: int, shift: int, m: int, n: int) -> int:
    x = (x ^ x >> shift) * m % 2**32
    x = ((x ^ x >> 15) + key) * n % 2**32
    return x ^ x >> 15


# ---------------------------------------------------------------- arrays of any kind
def made(rng: random.Random, most: int = 3000) -> tuple[np.ndarray, tuple[int, ...], tuple[int, ...]]:
    """A part of an array that lies in memory anyhow, where it starts in a larger one, and the shape of that."""
    ndim = rng.randint(0, 5)
    dtype = np.dtype(rng.choice(DTYPES))
    length = max(1, int((most / dtype.itemsize) ** (1 / max(ndim, 1))))
    memory = tuple(rng.randint(1, 2 * length) for _ in range(ndim))
    raw = np.random.default_rng(rng.getrandbits(32)).integers(0, 256, dtype.itemsize * int(np.prod(memory)), np.uint8)
    array = raw.view(dtype).reshape(memory).transpose(rng.sample(range(ndim), ndim))
    steps = [rng.choice([1, 1, 1, 2, 3, -1, -2]) for _ in range(ndim)]
    array = array[(*(slice(None, None, step) for step in steps), ...)]
    if ndim and rng.random() < 0.1:
        array = np.broadcast_to(array[:1], array.shape)
    far = rng.random() < 0.4
    origin = [rng.randint(0, 2 ** rng.randint(0, 14) if far else 3) for _ in range(ndim)]
    shape = [
        a + n + rng.randint(0, 2 ** rng.randint(0, 10) if far else 3) for a, n in zip(origin, array.shape, strict=True)
    ]
    if ndim and far:
        # The words from one element of the first axis to the next, so that the part lies across 2**32.
        step = int(np.prod(shape[1:], dtype=object)) * -(-dtype.itemsize // 4)
        origin[0] = max(0, rng.randint(1, 5) * 2**32 // step - rng.randint(0, array.shape[0]))
        shape[0] = origin[0] + array.shape[0] + 1
    return array, tuple(origin), tuple(shape)


parts = st.randoms(use_true_random=False).map(made)


@given(st.randoms(use_true_random=False).map(lambda rng: made(rng, 200)))
def test_numpy_does_what_the_formula_says(part: tuple[np.ndarray, tuple[int, ...], tuple[int, ...]]) -> None:
    assert reference_sums(*part) == by_hand(*part)


@compiled
@given(parts)
def test_the_compiled_loop_does_what_numpy_does(part: tuple[np.ndarray, tuple[int, ...], tuple[int, ...]]) -> None:
    assert sums(*part) == reference_sums(*part)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The compiled loop as machines without AVX2 run it."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if not shutil.which(compiler[0]):
        pytest.skip("no C compiler")
    built = tmp_path_factory.mktemp("plain") / "plain.so"
    flags = ["-O1", "-std=c99", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-DDIGEST_AVX2=0"]
    source = ROOT / "src" / "reblock" / "engine" / "native" / "digest.c"
    subprocess.run([*compiler, *flags, str(source), "-o", str(built)], check=True)
    found = ctypes.CDLL(str(built))
    found.reblock_digest.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, *[ctypes.c_void_p] * 6]
    return found


def test_so_does_the_loop_of_other_machines(plain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digest, "library", lambda: plain)
    for seed in range(500):
        part = made(random.Random(seed))
        assert sums(*part) == reference_sums(*part), seed


def test_without_the_library_numpy_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(60, dtype=">i2").reshape(5, 12)
    expected = sums(array, (1, 2), (9, 14))
    monkeypatch.setattr(digest, "library", lambda: None)
    assert sums(array, (1, 2), (9, 14)) == expected == by_hand(array, (1, 2), (9, 14))


def test_numpy_needs_little_memory_of_its_own() -> None:
    """Large arrays are taken in blocks; here one of 2 MiB that is not there at all."""
    array = np.broadcast_to(np.float32(1.5), (512, 1024))
    assert reference_sums(array, (3, 0), (600, 1024)) == sums(array, (3, 0), (600, 1024))


# ---------------------------------------------------------------- however it is cut and stored
@given(st.randoms(use_true_random=False))
def test_sums_of_pieces_are_those_of_the_whole(rng: random.Random) -> None:
    array, origin, shape = made(rng)
    cuts = [sorted({0, n, *(rng.randint(0, n) for _ in range(rng.randint(0, 3)))}) for n in array.shape]
    spans = [list(pairwise(cut)) for cut in cuts]
    pieces = []
    for index in np.ndindex(*map(len, spans)):
        box = [spans[axis][at] for axis, at in enumerate(index)]
        start = tuple(a + low for a, (low, _) in zip(origin, box, strict=True))
        pieces.append(sums(array[(*(slice(*bounds) for bounds in box), ...)], start, shape))
    rng.shuffle(pieces)
    assert sum(pieces, Sums()) == sums(array, origin, shape)


@pytest.mark.parametrize("dtype", ["u2", "f4", "f8", "c8", "c16", "U3", "M8[us]"])
def test_layout_and_byte_order_make_no_difference(dtype: str) -> None:
    raw = np.random.default_rng(0).integers(0, 128, (5, 6, 7), np.uint8)
    array = raw.astype(dtype) if dtype[0] != "U" else raw.astype("u1").astype("<U3")
    base = whole(array)
    for other in (np.asfortranarray(array), array.astype(array.dtype.newbyteorder(">")), array[::-1].copy()[::-1]):
        assert whole(other) == base
    assert whole(array.reshape(6, 5, 7)) != base
    assert whole(array.swapaxes(0, 1)) != base


def whole(array: np.ndarray) -> str:
    return text(sums(array, (0,) * array.ndim, array.shape), array.dtype, array.shape)


def test_type_and_shape_count() -> None:
    zeros = [
        np.zeros(shape, dtype)
        for shape in [(), (1,), (4,), (2, 2), (0, 3), (3, 0)]
        for dtype in ("f4", "i4", "u1", "S4")
    ]
    assert len({whole(array) for array in zeros}) == len(zeros)
    assert whole(np.zeros(3, ">f4")) == whole(np.zeros(3, "<f4"))
    assert re.fullmatch(r"rb1-[0-9a-f]{32}", whole(zeros[0]))


def test_nothing_adds_nothing() -> None:
    assert (
        sums(np.zeros((3, 0, 2)), (0, 0, 0), (3, 0, 2))
        == reference_sums(np.zeros((3, 0, 2)), (0, 0, 0), (3, 0, 2))
        == Sums()
    )


# ---------------------------------------------------------------- what it notices
@pytest.mark.parametrize("dtype", ["u1", "<u2", "<f4", ">f8", "<c16", "S3", "V7"])
@pytest.mark.parametrize("value", [0, 0x3F, 0xFF])
def test_every_bit_changes_both_sums(dtype: str, value: int) -> None:
    raw = np.full(np.dtype(dtype).itemsize * 12, value, np.uint8)
    base = sums(raw.view(dtype), (2**32 - 5,), (2**33,))
    for bit in range(raw.size * 8):
        raw[bit // 8] ^= 1 << bit % 8
        changed = sums(raw.view(dtype), (2**32 - 5,), (2**33,))
        assert changed.first != base.first
        assert changed.second != base.second
        raw[bit // 8] ^= 1 << bit % 8


def test_bits_count_and_not_values() -> None:
    assert whole(np.array([0.0])) != whole(np.array([-0.0]))
    payloads = np.array([0x7FF8000000000000, 0x7FF8000000000001, 0xFFF8000000000000], "u8").view("f8")
    assert len({whole(one) for one in payloads.reshape(3, 1)}) == 3
    assert whole(np.array([b"a"], "S2")) != whole(np.array([b"a"], "S3"))


BASES: dict[str, Callable[[], np.ndarray]] = {
    "zeros, some ones": lambda: (np.arange(1024) % 137 == 0).reshape(32, 32).astype("f4"),
    "two halves": lambda: np.repeat([1.0, -1.0], 512).reshape(32, 32).astype("f4"),
    "checkerboard": lambda: np.indices((32, 32)).sum(0).astype("u1") % 2,
    "chunks X Y / Y X": lambda: np.kron([[1, 2], [2, 1]], np.ones((16, 16))).astype("f8"),
    "ramp": lambda: np.arange(1024, dtype="i4").reshape(32, 32),
    "ramp of floats": lambda: np.arange(1024, dtype="f4").reshape(32, 32),
    "symmetric": lambda: np.add.outer(np.arange(32), np.arange(32)).astype("u2"),
    "bytes": lambda: np.arange(1024).astype("u1").reshape(32, 32),
    "noise": lambda: np.random.default_rng(5).standard_normal((32, 32)).astype("f4"),
}


def corrupted(base: np.ndarray, rng: random.Random) -> np.ndarray:
    """What goes wrong when arrays are moved: things exchanged, shifted, turned, repeated, lost, or changed twice."""
    n = len(base)
    bits = base.itemsize * 8
    array = base.copy()
    i, j, k, l = (rng.randrange(n) for _ in range(4))
    size = rng.choice([1, 2, 4, 8, 16])
    a, b, c, d = (rng.randrange(n // size) * size for _ in range(4))
    one, other = (slice(a, a + size), slice(b, b + size)), (slice(c, c + size), slice(d, d + size))
    raw = array.view("u1").reshape(n, -1)
    match rng.randrange(14):
        case 0:
            array[i, j], array[k, l] = base[k, l], base[i, j]
        case 1:
            array[[i, k]] = base[[k, i]]
        case 2:
            array[:, [j, l]] = base[:, [l, j]]
        case 3:
            array[one], array[other] = base[other], base[one]
        case 4:
            array[other] = base[one]
        case 5:
            array[one] = base[one].T
        case 6:
            array[one] = np.rot90(base[one], rng.randint(1, 3))
        case 7:
            array[i:] = np.roll(base[i:], rng.randint(1, n), rng.randrange(2))
        case 8:
            array[one] = 0
        case 9:
            array[i : i + 1, j] += 1
            array[k : k + 1, l] -= 1
        case 10:
            bit = rng.randrange(bits)
            for x, y in ((i, j), (k, l)):
                raw[x, y * base.itemsize + bit // 8] ^= 1 << bit % 8
        case 11:
            bit = rng.randrange(bits)
            rows = slice(min(i, k), max(i, k) + 1)
            raw[rows, bit // 8 :: base.itemsize] ^= np.uint8(1 << bit % 8)
        case 12:
            array[one] = base[one].byteswap()
        case _:
            array[one] = base[one][::-1, ::-1]
    return array


@pytest.mark.parametrize("name", BASES)
def test_no_two_corruptions_agree(name: str) -> None:
    rng, base = random.Random(name), BASES[name]()
    seen: dict[bytes, Sums] = {base.tobytes(): sums(base, (40, 50), (1000, 1000))}
    for _ in range(1000):
        array = corrupted(base, rng)
        if rng.random() < 0.5:
            array = corrupted(array, rng)
        seen[array.tobytes()] = sums(array, (40, 50), (1000, 1000))
    assert len(seen) > 500
    assert len(set(seen.values())) == len(seen)


def coincidences(values: np.ndarray) -> int:
    """Pairs of equal values."""
    counts = np.unique(values, return_counts=True)[1].astype(np.int64)
    return int((counts * (counts - 1) // 2).sum())


@pytest.mark.parametrize("name", BASES)
def test_no_two_exchanges_agree(name: str) -> None:
    """Any two different elements exchanged, which makes up to 523,776 arrays of 1,024 elements: one sum alone meets
    another by chance about as often as numbers of 32 bits do, both together never do."""
    words = digest._words(BASES[name]())
    positions = np.arange(words.size, dtype=np.uint64).reshape(words.shape)
    # Row: the place that an element goes to, column: the element.
    added = [np.sum(part, -1, np.int64) for part in digest._scrambled(words[None], positions[:, None])]
    one, other = np.triu_indices(len(words), 1)
    differ = (words[one] != words[other]).any(1)
    one, other = one[differ], other[differ]
    first, second = (part[one, other] + part[other, one] - part[one, one] - part[other, other] for part in added)
    assert len(first) > 5_000
    assert not ((first == 0) & (second == 0)).any()
    order = np.lexsort((second, first))
    assert not ((np.diff(first[order]) == 0) & (np.diff(second[order]) == 0)).any()
    expected = len(first) * (len(first) - 1) / 2 / 2**32
    assert coincidences(first) < 2 * expected + 8
    assert coincidences(second) < 2 * expected + 8


@pytest.mark.parametrize("word", [0, 0x3F800000, 255])
@pytest.mark.parametrize("bit", [0, 7, 15, 16, 23, 30, 31])
def test_two_changes_cancel_as_rarely_as_32_bits_allow(word: int, bit: int) -> None:
    """The same bit flipped at two places: each sum cancels for about one pair of 2³², and both never do."""
    count = 1 << 19
    words = np.full(count, word, np.uint32)
    position = np.arange(count, dtype=np.uint64)
    before, after = digest._scrambled(words, position), digest._scrambled(words ^ np.uint32(1 << bit), position)
    first, second = (b.astype(np.int64) - a for a, b in zip(before, after, strict=True))
    expected = count * (count - 1) / 2 / 2**32
    for change in (first, second):
        assert expected / 4 < coincidences(np.abs(change)) < 40 * expected
    # A pair cancels where both changes are the same but for the sign; 32 + 32 bits of them are compared.
    both = np.abs(first).astype(np.uint64) << np.uint64(32) | (np.sign(first) * second).astype(np.uint32)
    assert coincidences(both) == 0


@compiled
@pytest.mark.faults
def test_constants_differ_where_keys_have_gone_round() -> None:
    """After 2³² words each key has had every value, so a weaker formula would not tell one constant from another."""
    found = [sums(np.broadcast_to(np.float32(x), (2**16, 2**16)), (0, 0), (2**16, 2**16)) for x in (0, 1)]
    assert found[0].first != found[1].first
    assert found[0].second != found[1].second


# ---------------------------------------------------------------- the page
def vectors() -> list[tuple[str, str]]:
    """Elements and digests as the page lists them."""
    return re.findall(r"^\| `(np\..+)` \| `(rb1-\w+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_page_has_vectors() -> None:
    assert len(vectors()) >= 10


@pytest.mark.parametrize(("elements", "expected"), vectors())
def test_vectors(elements: str, expected: str) -> None:
    array = eval(elements, {"np": np})
    assert whole(array) == expected
    assert text(by_hand(array, (0,) * array.ndim, array.shape), array.dtype, array.shape) == expected
