"""Appending to arrays and replacing regions: the result is what one run on all elements would have made."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

import nibabel
import numpy as np
import numpy.typing as npt
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import reblock

EXAMPLES = int(os.environ.get("REBLOCK_EXAMPLES", "4"))
#: How arrays are made; chunks of 4 along every axis.
MADE: dict[str, dict[str, Any]] = {
    "zarr": {"codec": "zstd:1"},
    "zarr2": {"to_format": "zarr2", "codec": "zlib:1"},
    "sharded": {"shards": "8,8", "codec": "zstd:1"},
    "raw shards": {"shards": "8,8"},
    "blocks": {"to_format": "blocks"},
    "rawblocks": {"to_format": "rawblocks"},
    "fileblocks": {"to_format": "fileblocks:hdf5"},
}


@pytest.fixture(params=MADE)
def made(request: pytest.FixtureRequest) -> dict[str, Any]:
    return MADE[request.param]


def make(path: Path, values: npt.NDArray[Any], options: dict[str, Any]) -> None:
    """An array at a path; zarr ends in .zarr by itself."""
    reblock.repartition(values, path, **{"chunks": "4,4", "to_format": "zarr", **options})


def files(folder: Path) -> dict[str, bytes]:
    """All files of an array; of metadata without what a run records."""
    found = {}
    for path in folder.rglob("*"):
        if not path.is_file() or path.name == ".reblock.json":
            continue
        data = path.read_bytes()
        if path.suffix == ".json":
            document = json.loads(data)
            # Offsets of shapes that no block has any more stay.
            ours = ("reblock", "reblock_digest", "reblock_job", "offsets")
            data = json.dumps({key: value for key, value in document.items() if key not in ours}).encode()
        found[str(path.relative_to(folder))] = data
    return found


def values(shape: tuple[int, ...], seed: int = 0) -> npt.NDArray[Any]:
    return np.random.default_rng(seed).integers(-(2**31), 2**31, shape, "i4")


def test_an_append_makes_what_one_run_would_have_made(tmp_path: Path, made: dict[str, Any]) -> None:
    old, new = values((16, 10)), values((9, 10), 1)
    make(tmp_path / "y", old, made)
    make(tmp_path / "whole", np.concatenate([old, new]), made)
    np.save(tmp_path / "x.npy", new)
    report = reblock.repartition(tmp_path / "x.npy", tmp_path / "y", append_along=0)
    assert files(tmp_path / "y") == files(tmp_path / "whole")
    assert report.digest == reblock.verify(new, new).source_digest
    assert reblock.verify(tmp_path / "x.npy", tmp_path / "y", append_along=0)
    assert reblock.verify(np.concatenate([old, new]), tmp_path / "y", reader="library")
    assert sorted(os.listdir(tmp_path)) == ["whole", "x.npy", "y"]


def test_a_replaced_region_makes_what_one_run_would_have_made(tmp_path: Path, made: dict[str, Any]) -> None:
    old, new = values((16, 21)), values((8, 13), 1)
    make(tmp_path / "y", old, made)
    old[8:16, 8:21] = new
    make(tmp_path / "whole", old, made)
    np.save(tmp_path / "x.npy", new.T)
    report = reblock.repartition(tmp_path / "x.npy", tmp_path / "y", into_region="8:16,8:", transpose="1,0")
    assert files(tmp_path / "y") == files(tmp_path / "whole")
    assert any("replaces the region 8:16,8:21" in note for note in report.notes)
    assert reblock.open(tmp_path / "y").store.schema.record.digest is None
    assert reblock.verify(tmp_path / "x.npy", tmp_path / "y", into_region="8:16,8:21", transpose="1,0")
    assert not reblock.verify(tmp_path / "x.npy", tmp_path / "y", into_region="0:8,8:21", transpose="1,0")


@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_any_changes_equal_numpy(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Some changes one after the other, each judged by numpy."""
    folder = tmp_path_factory.mktemp("changes")
    options = MADE[data.draw(st.sampled_from(sorted(MADE)))]
    unit = 8 if "shards" in options else 4
    expected = values((unit * data.draw(st.integers(0, 3)), data.draw(st.integers(1, 20))))
    make(folder / "y", expected, options)
    for number in range(3):
        if data.draw(st.booleans()):
            new = values((unit * data.draw(st.integers(0, 2)), expected.shape[1]), number)
            np.save(folder / "x.npy", new)
            reblock.repartition(folder / "x.npy", folder / "y", append_along=0, memory="1MiB")
            expected = np.concatenate([expected, new])
        elif expected.size:
            row, column = (unit * data.draw(st.integers(0, (n - 1) // unit)) for n in expected.shape)
            rest = expected[row:, column:]
            new = values((min(unit, rest.shape[0]), rest.shape[1]), number)
            np.save(folder / "x.npy", new)
            stop = row + new.shape[0]
            reblock.repartition(folder / "x.npy", folder / "y", into_region=f"{row}:{stop},{column}:", memory="1MiB")
            expected[row:stop, column:] = new
        (folder / "x.npy").unlink(missing_ok=True)
        assert np.array_equal(reblock.open(folder / "y")[...], expected)


def test_the_same_append_again_does_nothing(tmp_path: Path, made: dict[str, Any]) -> None:
    """A process may be killed after its last write; the same command then must not append twice."""
    make(tmp_path / "y", values((8, 5)), made)
    np.save(tmp_path / "x.npy", values((3, 5), 1))
    first = reblock.repartition(tmp_path / "x.npy", tmp_path / "y", append_along=0)
    again = reblock.repartition(tmp_path / "x.npy", tmp_path / "y", append_along=0)
    assert again.digest == first.digest
    assert again.write_boxes == 0
    assert any("already complete" in note for note in again.notes)
    assert reblock.open(tmp_path / "y").shape == (11, 5)
    # Other elements are another append, and the last chunk is not full.
    np.save(tmp_path / "x.npy", values((3, 5), 2))
    with pytest.raises(reblock.UsageError, match=r"may begin at 8 or 1[26]"):
        reblock.repartition(tmp_path / "x.npy", tmp_path / "y", append_along=0)


def test_two_sources_in_turn_are_appended_each_time(tmp_path: Path) -> None:
    make(tmp_path / "y", values((4, 4)), {})
    for number in (1, 2):
        np.save(tmp_path / f"x{number}.npy", np.full((4, 4), number, "i4"))
    for number in (1, 2, 1):
        reblock.repartition(tmp_path / f"x{number}.npy", tmp_path / "y", append_along=0)
    assert reblock.open(tmp_path / "y")[4:, 0].tolist() == [1] * 4 + [2] * 4 + [1] * 4


@pytest.mark.parametrize("axis", [1, -1, "x"])
def test_any_axis_by_number_or_name(tmp_path: Path, axis: str | int) -> None:
    old, new = values((5, 8)), values((5, 3), 1)
    array = zarr.create_array(tmp_path / "y.zarr", shape=(5, 8), chunks=(5, 4), dtype="i4", dimension_names=["t", "x"])
    array[...] = old
    np.save(tmp_path / "x.npy", new)
    reblock.repartition(tmp_path / "x.npy", tmp_path / "y.zarr", append_along=axis)
    assert np.array_equal(zarr.open_array(tmp_path / "y.zarr")[...], np.concatenate([old, new], axis=1))


def test_metadata_of_others_stays(tmp_path: Path) -> None:
    """Only shape and record change: other members, attributes and the order of bytes are kept."""
    made = zarr.create_array(
        tmp_path / "y.zarr",
        shape=(8, 6),
        chunks=(4, 6),
        dtype="<f8",
        serializer=zarr.codecs.BytesCodec(endian="big"),
        compressors=zarr.codecs.ZstdCodec(level=7, checksum=True),
        chunk_key_encoding={"name": "v2", "separator": "."},
        fill_value=-1.5,
        attributes={"units": "K", "nested": {"a": [1, 2]}},
    )
    made[...] = np.arange(48.0).reshape(8, 6)
    before = json.loads((tmp_path / "y.zarr/zarr.json").read_text())
    np.save(tmp_path / "x.npy", np.full((4, 6), 2.0))
    reblock.repartition(tmp_path / "x.npy", tmp_path / "y.zarr", append_along=0)
    after = json.loads((tmp_path / "y.zarr/zarr.json").read_text())
    assert after.pop("reblock")["must_understand"] is False
    assert after == {**before, "shape": [12, 6]}
    found = zarr.open_array(tmp_path / "y.zarr")
    assert np.array_equal(found[8:], np.full((4, 6), 2.0))
    assert found.attrs["nested"] == {"a": [1, 2]}


def test_the_joint_index_of_groups_follows(tmp_path: Path) -> None:
    for version in (2, 3):
        path = tmp_path / f"g{version}.zarr"
        top = zarr.create_group(path, zarr_format=version)
        inner = top.create_group("ocean")
        inner.create_array("t", shape=(4, 4), chunks=(2, 4), dtype="i4")[...] = 1
        inner.create_array("s", shape=(4, 4), chunks=(2, 4), dtype="i4")[...] = 2
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", zarr.errors.ZarrUserWarning)
            zarr.consolidate_metadata(path)
        np.save(tmp_path / "x.npy", np.full((2, 4), 3, "i4"))
        reblock.repartition(tmp_path / "x.npy", f"{path}::ocean/t", append_along=0)
        found = zarr.open_consolidated(path)
        assert found["ocean/t"].shape == (6, 4)
        assert np.array_equal(found["ocean/t"][4:], np.full((2, 4), 3))
        assert np.array_equal(found["ocean/s"][...], np.full((4, 4), 2))


def test_heads_of_new_blocks_tell_their_place(tmp_path: Path) -> None:
    image = nibabel.Nifti1Image(values((8, 6, 5)).astype("i2"), np.diag([2.0, 3.0, 4.0, 1.0]))
    nibabel.save(image, tmp_path / "x.nii")
    options: dict[str, Any] = {"chunks": "4,6,5", "to_format": "fileblocks:nii"}
    reblock.repartition(tmp_path / "x.nii", tmp_path / "y", region="0:4,:,:", **options)
    reblock.repartition(tmp_path / "x.nii", tmp_path / "whole", **options)
    reblock.repartition(tmp_path / "x.nii", tmp_path / "y", region="4:8,:,:", append_along=0)
    assert nibabel.load(tmp_path / "y/1_0_0.nii").affine[0, 3] == 8.0
    assert files(tmp_path / "y") == files(tmp_path / "whole")


def test_irregular_blocks_are_replaced(tmp_path: Path) -> None:
    old, new = values((10, 6)), values((3, 6), 1)
    make(tmp_path / "y", old, {"chunks": "3+3+4,6", "to_format": "blocks"})
    np.save(tmp_path / "x.npy", new)
    reblock.repartition(tmp_path / "x.npy", tmp_path / "y", into_region="3:6,:")
    old[3:6] = new
    assert np.array_equal(reblock.open(tmp_path / "y")[...], old)
    with pytest.raises(reblock.UsageError, match="blocks of different lengths along axis 0"):
        reblock.plan(tmp_path / "x.npy", tmp_path / "y", append_along=0)


def test_no_axes_and_no_elements(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "one.zarr", shape=(), dtype="f4")[...] = 1
    np.save(tmp_path / "two.npy", np.float32(2))
    reblock.repartition(tmp_path / "two.npy", tmp_path / "one.zarr", into_region="...")
    assert zarr.open_array(tmp_path / "one.zarr")[()] == 2
    with pytest.raises(reblock.UsageError, match="has no axes"):
        reblock.plan(tmp_path / "two.npy", tmp_path / "one.zarr", append_along=0)
    zarr.create_array(tmp_path / "none.zarr", shape=(0, 3), chunks=(2, 3), dtype="f4")
    np.save(tmp_path / "rows.npy", np.ones((5, 3), "f4"))
    np.save(tmp_path / "no rows.npy", np.ones((0, 3), "f4"))
    for name, length in (("no rows", 0), ("rows", 5)):
        reblock.repartition(tmp_path / f"{name}.npy", tmp_path / "none.zarr", append_along=0)
        assert zarr.open_array(tmp_path / "none.zarr").shape == (length, 3)


def test_big_endian_elements_and_conversions(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "y.zarr", shape=(4,), chunks=(4,), dtype=">u2", zarr_format=2)[...] = 1
    np.save(tmp_path / "x.npy", np.arange(4, dtype="<u2"))
    reblock.repartition(tmp_path / "x.npy", tmp_path / "y.zarr", append_along=0)
    np.save(tmp_path / "wide.npy", np.arange(4, dtype="<u4"))
    with pytest.raises(reblock.UsageError, match="dtype='u2' converts them"):
        reblock.plan(tmp_path / "wide.npy", tmp_path / "y.zarr", append_along=0)
    reblock.repartition(tmp_path / "wide.npy", tmp_path / "y.zarr", append_along=0, dtype="u2")
    assert zarr.open_array(tmp_path / "y.zarr")[...].tolist() == [1] * 4 + [0, 1, 2, 3] * 2


REFUSED = [
    ({"append_along": 0, "source": (4, 7)}, "length 7 along axis 1, .* has 10: only axis 0 may differ"),
    ({"append_along": 0, "source": (4,)}, "the source has 1 axis, .* has 2 axes"),
    ({"append_along": 2}, "there is no axis 2"),
    ({"append_along": "time"}, "names no axis"),
    ({"append_along": 1, "source": (16, 4)}, "length 10 along axis 1, inside a chunk of 4: .* begin at 8 or 12"),
    ({"into_region": "2:6,:", "source": (4, 10)}, "cuts through chunks .* nearest regions of whole ones are 0:8,0:10"),
    ({"into_region": "3:13,:", "source": (10, 10)}, "are 0:16,0:10 and 4:12,0:10"),
    ({"into_region": "0:4,:", "source": (4, 9)}, r"has shape 4,9, the region 0:4,0:10 of .* has 4,10"),
    ({"into_region": "0:4,:", "append_along": 0}, "leave one of them out"),
    ({"append_along": 0, "chunks": "2,10"}, "has chunks of 4,4, which stay"),
    ({"append_along": 0, "codec": "gzip"}, "codec is for a new array"),
    ({"append_along": 0, "shards": "8,8"}, "shards is for a new array"),
    ({"append_along": 0, "dtype": "f4"}, "elements of float32, .* of int32"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_what_does_not_fit_is_refused(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    make(tmp_path / "y", values((16, 10)), {})
    before = files(tmp_path / "y")
    options = dict(options)
    np.save(tmp_path / "x.npy", values(options.pop("source", (4, 10))))
    with pytest.raises(reblock.UsageError, match=words) as caught:
        reblock.plan(tmp_path / "x.npy", tmp_path / "y", **options)
    assert "\n" not in str(caught.value)
    assert files(tmp_path / "y") == before
    assert sorted(os.listdir(tmp_path)) == ["x.npy", "y"]


@pytest.mark.parametrize("name", ["y.npy", "y.h5", "y.nc", "y.nii"])
def test_other_formats_are_refused_with_a_way_out(tmp_path: Path, name: str) -> None:
    np.save(tmp_path / "x.npy", values((4, 4)).astype("i2"))
    reblock.repartition(tmp_path / "x.npy", tmp_path / name if name != "y.npy" else tmp_path / "z.zarr")
    target = tmp_path / name if name != "y.npy" else tmp_path / "x.npy"
    with pytest.raises(reblock.UsageError, match=r"cannot be changed in place.*concat"):
        reblock.plan(tmp_path / "x.npy", target, append_along=0)


def test_no_array_and_other_media_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", values((4, 4)))
    with pytest.raises(reblock.UsageError, match=r"does not exist: .* leave them out to make a new one"):
        reblock.plan(tmp_path / "x.npy", tmp_path / "y.zarr", append_along=0)
    with pytest.raises(reblock.UsageError, match="need an array"):
        reblock.plan(tmp_path / "x.npy", append_along=0)
    reblock.repartition(tmp_path / "x.npy", "memory://changes/y.zarr")
    with pytest.raises(reblock.UsageError, match="cannot rename chunks"):
        reblock.plan(tmp_path / "x.npy", "memory://changes/y.zarr", append_along=0)


def test_a_source_inside_the_target_is_refused(tmp_path: Path) -> None:
    make(tmp_path / "y.zarr", values((8, 8)), {})
    before = files(tmp_path / "y.zarr")
    with pytest.raises(reblock.UsageError, match="overlap"):
        reblock.repartition(tmp_path / "y.zarr", tmp_path / "y.zarr", append_along=0)
    np.save(tmp_path / "y.zarr/x.npy", values((8, 8)))
    with pytest.raises(reblock.UsageError, match="overlap"):
        reblock.repartition(tmp_path / "y.zarr/x.npy", tmp_path / "y.zarr", into_region="...")
    (tmp_path / "y.zarr/x.npy").unlink()
    assert files(tmp_path / "y.zarr") == before


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Neither a target that is a link, nor a chunk folder that leads elsewhere."""
    make(tmp_path / "y.zarr", values((8, 8)), {})
    np.save(tmp_path / "x.npy", values((8, 8), 1))
    (tmp_path / "link.zarr").symlink_to(tmp_path / "y.zarr")
    with pytest.raises(reblock.UsageError, match=r"symbolic link to .*name that"):
        reblock.repartition(tmp_path / "x.npy", tmp_path / "link.zarr", into_region="...")
    (tmp_path / "link.zarr").unlink()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "y.zarr/c/2").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(reblock.StorageError, match="not a folder"):
        reblock.repartition(tmp_path / "x.npy", tmp_path / "y.zarr", append_along=0)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_an_array_that_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    make(tmp_path / "y.zarr", values((8, 8)), {})
    np.save(tmp_path / "x.npy", values((4, 8), 1))
    job = reblock.plan(tmp_path / "x.npy", tmp_path / "y.zarr", append_along=0)
    zarr.open_array(tmp_path / "y.zarr").resize((12, 8))
    with pytest.raises(reblock.ChangedError, match="changed by another program"):
        reblock.run(job)
    assert zarr.open_array(tmp_path / "y.zarr").shape == (12, 8)


def test_overwrite_does_not_go_with_a_change(tmp_path: Path) -> None:
    make(tmp_path / "y.zarr", values((8, 8)), {})
    np.save(tmp_path / "x.npy", values((4, 8), 1))
    with pytest.raises(reblock.UsageError, match="only changes"):
        reblock.repartition(tmp_path / "x.npy", tmp_path / "y.zarr", append_along=0, overwrite=True)


def test_plan_shows_it_and_a_saved_plan_makes_it(tmp_path: Path) -> None:
    make(tmp_path / "y.zarr", values((8, 8)), {})
    np.save(tmp_path / "x.npy", values((4, 8), 1))
    job = reblock.plan(tmp_path / "x.npy", tmp_path / "y.zarr", append_along=0)
    assert "whose length becomes 12 instead of 8" in job.explain()
    reblock.save_plan(job, tmp_path / "p.json")
    reblock.run(reblock.load_plan(tmp_path / "p.json", tmp_path / "x.npy", tmp_path / "y.zarr"))
    assert reblock.open(tmp_path / "y.zarr").shape == (12, 8)


@pytest.mark.slow
def test_worker_processes_change_arrays(tmp_path: Path) -> None:
    make(tmp_path / "y.zarr", values((8, 8)), {"shards": "8,8"})
    np.save(tmp_path / "x.npy", values((16, 8), 1))
    job = reblock.plan(tmp_path / "x.npy", tmp_path / "y.zarr", append_along=0)
    reblock.run(job, workers=2)
    assert reblock.verify(tmp_path / "x.npy", tmp_path / "y.zarr", append_along=0)
