"""Presets of devices: round figures of hardware that is common today; `reblock bench device` measures yours."""

from __future__ import annotations

from dataclasses import replace

from reblock.model import Device

_DECODE = {"default": 1.0e9, "gzip": 1.2e9, "zlib": 1.2e9, "bz2": 0.06e9, "lzma": 0.1e9, "lzf": 0.6e9, "blosc": 2.4e9}
_ENCODE = {"default": 0.4e9, "gzip": 0.2e9, "zlib": 0.2e9, "bz2": 0.03e9, "lzma": 0.01e9, "blosc": 0.6e9}


def _preset(name: str, read: float, write: float, opened: float, seek: float, create: float, depth: int) -> Device:
    return Device(
        name,
        read_bytes_per_second=read,
        write_bytes_per_second=write,
        open_seconds=opened,
        seek_seconds=seek,
        create_seconds=create,
        depth=depth,
        far_seek_seconds=0.008 if name == "hdd" else 0.0,
        decode_bytes_per_second=dict(_DECODE),
        encode_bytes_per_second=dict(_ENCODE),
    )


PRESETS: dict[str, Device] = {
    "nvme": _preset("nvme", 2.5e9, 1.2e9, 40e-6, 80e-6, 200e-6, 12),
    "ssd": _preset("ssd", 0.5e9, 0.45e9, 80e-6, 100e-6, 300e-6, 8),
    "hdd": _preset("hdd", 0.16e9, 0.15e9, 0.004, 0.004, 0.008, 1),
    "s3": replace(_preset("s3", 0.3e9, 0.2e9, 0.03, 0.03, 0.05, 16), duplex=True),
    # The optical jukebox of Sarawagi & Stonebraker 1994: two sides of 3.27 GB are mounted, a mount takes ten seconds.
    # Rates and seeks are those of optical drives of the time.
    "jukebox": replace(
        _preset("jukebox", 0.6e6, 0.3e6, 0.1, 0.1, 0.1, 1),
        travel_seconds_per_byte=0.2 / 3.27e9,
        switch_seconds=10.0,
        drives=2,
        medium_bytes=3_270_000_000,
    ),
    # Tapes as in the same paper: a seek takes 45 seconds on average, so over half of a tape.
    "tape": replace(
        _preset("tape", 1e6, 1e6, 1.0, 1.0, 1.0, 1),
        travel_seconds_per_byte=88.0 / 5e9,
        switch_seconds=10.0,
        drives=2,
        medium_bytes=5_000_000_000,
    ),
}
