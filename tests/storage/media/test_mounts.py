"""Names of devices: the same from run to run, and of the device that really holds a path."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reblock.storage.media import mounts
from reblock.storage.media.mounts import device_name


def listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *lines: str) -> None:
    """Have the system list these mounts; NN is the number of the device of this folder."""
    number = os.stat(tmp_path).st_dev
    here = f"{os.major(number)}:{os.minor(number)}"
    file = tmp_path / "mountinfo"
    file.write_text("".join(line.replace("NN", here) + "\n" for line in lines))
    monkeypatch.setattr(mounts, "_MOUNTS", str(file))


def test_a_path_that_is_not_there_yet_has_the_device_of_its_folder(tmp_path: Path) -> None:
    assert device_name(str(tmp_path)) == device_name(str(tmp_path / "new" / "x.zarr")) != ""


def test_the_source_of_the_mount_is_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed(
        monkeypatch,
        tmp_path,
        "21 1 999:9 / /other rw - ext4 /dev/other rw",
        "22 1 NN / / rw,relatime shared:1 - ext4 /dev/vda1 rw",
        "23 1 999:8 / /proc rw - proc proc rw",
    )
    assert device_name(str(tmp_path)) == "/dev/vda1"


def test_a_share_by_server_and_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed(monkeypatch, tmp_path, r"22 1 NN / /mnt/a\040b rw - nfs4 server:/export\040one rw")
    assert device_name(str(tmp_path)) == "server:/export one"


def test_file_systems_without_a_device_are_told_apart_by_where_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed(monkeypatch, tmp_path, "22 1 NN / /dev/shm rw - tmpfs tmpfs rw")
    assert device_name(str(tmp_path)) == "tmpfs on /dev/shm"


@pytest.mark.parametrize("lines", [(), ("nonsense",), ("22 1 NN",), ("22 1 NN / / rw - ext4",)])
def test_where_the_list_says_nothing_the_number_is_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: tuple[str, ...]
) -> None:
    listed(monkeypatch, tmp_path, *lines)
    number = os.stat(tmp_path).st_dev
    assert device_name(str(tmp_path)) == f"device {os.major(number)}:{os.minor(number)}"


def test_a_system_without_a_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounts, "_MOUNTS", str(tmp_path / "missing"))
    assert str(device_name(str(tmp_path))).startswith("device ")
