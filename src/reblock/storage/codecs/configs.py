"""Convert between stages and numcodecs configurations, by the registrations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from reblock.model.codec import Stage
from reblock.storage.codecs.registry import find


def stage_of(config: Any, dtype: np.dtype[Any]) -> Stage:
    """A stage from a numcodecs configuration; ValueError if it is unknown."""
    if not isinstance(config, Mapping) or not isinstance(config.get("id"), str):
        raise ValueError(f"a codec is an object with an id, not {config!r:.80}")  # noqa: TRY004 - of the file
    codec = find(config["id"])
    given = {codec.renamed.get(key, key): value for key, value in config.items() if key != "id"}
    settings: dict[str, Any] = {**codec.defaults, **given}
    for key, value in codec.idle.items():
        if key in settings and settings[key] == value:
            del settings[key]
    codec.normalize(settings, dtype)
    # Left out if it follows from the array's own type.
    if codec.typed and settings.get(codec.typed, dtype.itemsize) in (dtype.itemsize, None):
        settings.pop(codec.typed, None)
    stage = Stage(codec.name, tuple(sorted(settings.items())))
    codec.check(stage)
    return stage


def config(stage: Stage, dtype: np.dtype[Any]) -> dict[str, Any]:
    """The numcodecs configuration of a stage."""
    return find(stage.name).config(stage, dtype)
