"""Registrations: one per codec, complete, and the only way by which a codec is known."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from reblock.model.codec import _PLACES, Codec, Stage
from reblock.storage.codecs import registration, registry
from reblock.storage.codecs.chain import Chain
from reblock.storage.codecs.configs import config, stage_of
from reblock.storage.codecs.registration import Role
from reblock.storage.codecs.registry import CODECS, check, decoder, divider, find, is_checksum

FOLDER = Path(registry.__file__).parent
F4 = np.dtype("<f4")
NEEDED = {
    "delta": {"dtype": "<f4"},
    "fixedscaleoffset": {"offset": 0, "scale": 1, "dtype": "<f4"},
    "quantize": {"digits": 3, "dtype": "<f4"},
    "astype": {"encode_dtype": "<f8", "decode_dtype": "<f4"},
    "bitround": {"keepbits": 10},
    "predictor": {"kind": "floating", "samples": 1, "width": 10},
}


def stage(name: str) -> Stage:
    return stage_of({"id": name, **NEEDED.get(name, {})}, F4)


def test_codecs_name_no_format() -> None:
    spoken = re.compile(r"\bzarr\b|hdf5|\bnpy\b", re.IGNORECASE)
    allowed = {"checksums.py", "shuffle.py"}  # fletcher32 and shuffle are the ones that HDF5 defined
    knowing = {file.name for file in FOLDER.glob("*.py") if spoken.search(file.read_text())}
    assert knowing <= allowed


def test_the_text_form_knows_codecs_of_all_formats() -> None:
    """Text names what some format has: lzf is HDF5's own, so there is no registration."""
    assert set(_PLACES) - set(CODECS) == {"lzf"}


@pytest.mark.parametrize("name", sorted(CODECS))
def test_every_codec_decodes_what_it_encodes_into_given_memory(name: str) -> None:
    chain, out = Chain(Codec((stage(name),)), F4), np.zeros(400, np.uint8)
    # Bits for those that store bits, and numbers with few digits for those that round.
    data = np.arange(100, dtype="<f4").view(np.uint8) if name != "packbits" else np.tile(np.array([0, 1], "u1"), 200)
    stored = chain.encode(data.copy())
    assert stored.size <= chain.limit(data.size)
    chain.decode(stored.data, out)
    assert np.array_equal(out, data)


@pytest.mark.parametrize("name", sorted(CODECS))
def test_settings_come_back_from_numcodecs_words(name: str) -> None:
    one = stage(name)
    assert stage_of(config(one, F4), F4) == one


@pytest.mark.parametrize("name", ["pickle", "json2", "vlen-utf8", "no-such-codec", "__class__"])
def test_what_is_not_registered_is_refused_by_name(name: str) -> None:
    for refuse in (lambda: find(name), lambda: check(Stage(name)), lambda: stage_of({"id": name}, F4)):
        with pytest.raises(ValueError, match=f"codec '{name}' is not supported"):
            refuse()


def test_only_compressors_have_an_unknown_size() -> None:
    for name, codec in CODECS.items():
        (_, exact) = Chain(Codec((stage(name),)), F4).sizes(400)[-1]
        assert exact == (codec.role is not Role.COMPRESSOR), name
        assert is_checksum(stage(name)) == (codec.role is Role.CHECKSUM), name


def test_decoders_in_c_and_parts_are_of_single_codecs() -> None:
    having = {name for name in CODECS if decoder(Codec((stage(name),))) is not None}
    dividing = {name for name in CODECS if divider(Codec((stage(name),))) is not None}
    assert having >= dividing
    for name in having:
        assert decoder(Codec((stage(name), stage("crc32c")))) is None
        assert divider(Codec((stage(name), stage("crc32c")))) is None


def test_objects_of_numcodecs_are_made_once_per_stage() -> None:
    one, codec = stage("zstd"), find("zstd")
    assert codec.numcodec(one, F4) is codec.numcodec(one, F4)
    for number in range(registration._MAX_MADE + 5):
        codec.numcodec(Stage.of("zstd", level=number % 20), F4)
    assert len(registration._MADE) <= registration._MAX_MADE
