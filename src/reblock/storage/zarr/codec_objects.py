"""Codec objects of Zarr v3: the specification's own codecs and those that carry the prefix of numcodecs, both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from reblock.model.codec import Stage
from reblock.storage.codecs.configs import config, stage_of

#: Codecs of the v3 specification, with the settings that it gives them.
V3 = {
    "blosc": {"cname", "level", "shuffle", "blocksize", "typesize"},
    "gzip": {"level"},
    "zstd": {"level", "checksum"},
    "crc32c": set[str](),
}
#: The only one of numcodecs' settings that the specification does not allow.
_DEFAULT = ("gzip", -1)


def is_specified(stage: Stage) -> bool:
    """Whether the v3 specification has a stage, as it is set."""
    known = V3.get(stage.name)
    return known is not None and known >= dict(stage.settings).keys() and (stage.name, stage.get("level")) != _DEFAULT


def check_v3(stage: Stage, dtype: np.dtype[Any]) -> None:
    """ValueError for a stage that zarr-python does not read in v3."""
    if stage.name == "base64":
        raise ValueError("codec base64 is of zarr v2 only")
    if stage.name == "quantize" and {stage.get("dtype"), stage.get("astype", dtype.str)} != {dtype.str}:
        raise ValueError(f"in zarr v3 codec quantize must have the array's own type, {dtype.str}, for dtype and astype")


def stage_of_v3(name: str, settings: Mapping[str, Any], dtype: np.dtype[Any]) -> Stage:
    """A stage from the name and configuration of a v3 codec."""
    if name.startswith("numcodecs."):
        return stage_of({**settings, "id": name.removeprefix("numcodecs.")}, dtype)
    if name not in V3:
        raise ValueError(f"codec {name!r} is not supported")
    if name == "blosc":
        settings = {"shuffle": -1, "cname": "zstd", **settings}
    return stage_of({**settings, "id": name}, dtype)


def config_v3(stage: Stage, dtype: np.dtype[Any]) -> dict[str, Any]:
    """The v3 codec object of a stage; those that are not in the specification carry the prefix of numcodecs."""
    settings = config(stage, dtype)
    del settings["id"]
    if not is_specified(stage):
        return {"name": f"numcodecs.{stage.name}", "configuration": settings}
    if stage.name == "blosc":
        settings["shuffle"] = stage.get("shuffle")
    if stage.name == "zstd":
        settings.setdefault("checksum", False)
    return {"name": stage.name, "configuration": settings} if settings else {"name": stage.name}
