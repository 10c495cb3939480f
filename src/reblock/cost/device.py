"""Presets of devices: round figures of hardware that is common today; `reblock bench device` measures yours."""

from __future__ import annotations

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
    "s3": _preset("s3", 0.3e9, 0.2e9, 0.03, 0.03, 0.05, 16),
}
