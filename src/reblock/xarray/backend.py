"""The xarray backend: `xr.open_dataset(url, engine="reblock")` gives lazy arrays whose reads are planned.

A selection becomes one planned read of the engine, within the memory budget, instead of one read for each chunk.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import xarray as xr
from xarray.backends.common import AbstractDataStore, BackendEntrypoint
from xarray.backends.store import StoreBackendEntrypoint

from reblock.api import open_dataset
from reblock.storage.location import Location, absolute
from reblock.xarray.stores import DatasetStore, open_store


class ReblockBackend(BackendEntrypoint):
    """Opens everything that reblock can open."""

    description = "Any dataset that reblock reads; a selection is one planned read"
    supports_groups = True

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | None = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        memory: str | int | None = None,
        format: str | None = None,
    ) -> xr.Dataset:
        """Open a file or group lazily; `memory` is the budget of one read, beside its result."""
        where = _located(filename_or_obj)
        return _decoded(
            open_store(_within(where, group), where, format, memory),
            mask_and_scale=mask_and_scale,
            decode_times=decode_times,
            concat_characters=concat_characters,
            decode_coords=decode_coords,
            drop_variables=drop_variables,
            use_cftime=use_cftime,
            decode_timedelta=decode_timedelta,
        )

    def open_groups_as_dict(
        self,
        filename_or_obj: Any,
        *,
        mask_and_scale: Any = True,
        decode_times: Any = True,
        concat_characters: Any = True,
        decode_coords: Any = True,
        drop_variables: str | Iterable[str] | None = None,
        use_cftime: bool | None = None,
        decode_timedelta: Any = None,
        group: str | None = None,
        memory: str | int | None = None,
        format: str | None = None,
    ) -> dict[str, xr.Dataset]:
        """Open a group and all groups below it lazily, by their paths."""
        where = _located(filename_or_obj)
        top = open_dataset(_within(where, group), format=format, memory=memory)
        return {
            f"/{name}": _decoded(
                DatasetStore(replace(top, group=name), where),
                mask_and_scale=mask_and_scale,
                decode_times=decode_times,
                concat_characters=concat_characters,
                decode_coords=decode_coords,
                drop_variables=drop_variables,
                use_cftime=use_cftime,
                decode_timedelta=decode_timedelta,
            )
            for name in ("", *top.groups)
        }

    def open_datatree(self, filename_or_obj: Any, **options: Any) -> xr.DataTree:
        """Open a file or group with all groups below it lazily."""
        return xr.DataTree.from_dict(self.open_groups_as_dict(filename_or_obj, **options))

    def guess_can_open(self, filename_or_obj: Any) -> bool:  # noqa: ARG002 - installing reblock changes no default
        """Never: only `engine="reblock"` chooses it."""
        return False


def _decoded(store: AbstractDataStore, **options: Any) -> xr.Dataset:
    found: xr.Dataset = StoreBackendEntrypoint().open_dataset(store, **options)
    return found


def _located(given: Any) -> str:
    """A path or URL; a path keeps its meaning when the working directory changes."""
    where = Location.parse(os.path.expanduser(os.fspath(given)))
    return str(Location(absolute(where.path), where.inner))


def _within(where: str, group: str | None) -> str:
    """The location of a group in a file or group."""
    inside = (group or "").strip("/")
    if not inside:
        return where
    return f"{where}/{inside}" if "::" in where else f"{where}::{inside}"
