from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest
from click.testing import CliRunner, Result

import reblock
from postgres_server import Server
from reblock.cli.application import application
from reblock.storage.media.postgres import POSTGRES
from reblock.storage.registry import locate

RANDOM = np.random.default_rng(7)


@pytest.fixture
def sql(server: Server) -> Callable[..., list[Any]]:
    def ask(query: str, *values: Any) -> list[Any]:
        with psycopg.connect(server.url, autocommit=True) as connection:
            cursor = connection.execute(query, values)
            return cursor.fetchall() if cursor.description else []

    return ask


def make(url: str, data: np.ndarray, **options: Any) -> Any:
    return reblock.repartition(data, url, **options)


# ---------------------------------------------------------------- reading and updating regions
def stamps(sql: Callable[..., list[Any]], url: str) -> dict[str, int]:
    name = url.rpartition("::")[2]
    return dict(sql("SELECT key, stamp FROM reblock.objects WHERE key LIKE %s", f"{name}/c/%"))


@pytest.mark.parametrize("codec", ["none", "zstd:1"])
@pytest.mark.parametrize("order", [None, "2,0,1", "hilbert"])
def test_updates_are_those_of_numpy(url: str, codec: str, order: str | None) -> None:
    expected = RANDOM.integers(0, 100, (23, 17, 11)).astype("<i4")
    make(url, expected.copy(), chunks="5,6,4", codec=codec, chunk_order=order)
    array = reblock.open(url, mode="r+")
    keys: list[Any] = [
        (slice(3, 9), slice(None), 4),
        (slice(None, None, 3), slice(14, 2, -5), slice(1, 9, 2)),
        (0, 0, 0),
        (..., slice(10, 11)),
        (slice(5, 10), slice(6, 12), slice(4, 8)),
        (slice(4, 4), 0, 0),
    ]
    for key in keys:
        value = RANDOM.integers(0, 100, expected[key].shape)
        array[key] = expected[key] = value
        assert np.array_equal(array[...], expected)
    array[2] = expected[2] = 7
    assert np.array_equal(reblock.open(url)[...], expected)
    assert np.array_equal(reblock.open(url)[1:20:4, ::-3, 5], expected[1:20:4, ::-3, 5])


def test_only_touched_chunks_are_rewritten(url: str, sql: Callable[..., list[Any]]) -> None:
    make(url, np.zeros((100, 100), "<f8"), chunks="10,10")
    before = stamps(sql, url)
    assert len(before) == 100
    reblock.open(url, mode="r+")[15:25, 95] = 1
    after = stamps(sql, url)
    assert len([key for key in before if after[key] != before[key]]) == 2


def test_an_update_is_all_or_nothing(url: str, sql: Callable[..., list[Any]]) -> None:
    make(url, np.zeros((40,), "<f8"), chunks="10", codec="crc32c")
    name = url.rpartition("::")[2]
    sql("UPDATE reblock.objects SET data = data || '\\x00' WHERE key = %s", f"{name}/c/{2:020}")
    array = reblock.open(url, mode="r+")
    with pytest.raises(reblock.CorruptError, match="crc32c"):
        array[5:25] = 1
    assert not array[:20].any()


def test_the_digest_goes_with_an_update(url: str) -> None:
    data = np.arange(30000.0).reshape(100, 300)
    make(url, data, chunks="50,50")
    assert reblock.verify(data, url)
    assert reblock.open(url).store.schema.record.digest
    array = reblock.open(url, mode="r+")
    array[3, 4] = data[3, 4] + 1
    assert reblock.open(url).store.schema.record.digest is None
    verdict = reblock.verify(data, url)
    assert (verdict.equal, verdict.differing_elements, verdict.first_difference.index) == (False, 1, (3, 4))
    array[3, 4] = data[3, 4]
    assert reblock.verify(data, url)


def test_a_small_array_is_one_row(url: str, sql: Callable[..., list[Any]]) -> None:
    data = np.arange(12, dtype=">i2").reshape(3, 4)
    make(url, data, chunks="3,4")
    name = url.rpartition("::")[2]
    rows = sql("SELECT key, data, description IS NOT NULL FROM reblock.objects WHERE key LIKE %s", f"{name}/%")
    assert rows == [(f"{name}/array", data.tobytes(), True)]
    array = reblock.open(url, mode="r+")
    array[1, 1:3] = [70, 80]
    assert array[1].tolist() == [4, 70, 80, 7]


def test_empty_arrays_are_filled_in_parts(url: str, sql: Callable[..., list[Any]]) -> None:
    array = reblock.create(
        url, shape=(50, 40), dtype="<f4", chunks="20,20", fill_value=-1, axes=("y", "x"), attributes={"units": "K"}
    )
    assert (array[...] == -1).all()
    assert stamps(sql, url) == {}
    array[18:22, 5] = 3
    assert len(stamps(sql, url)) == 2
    expected = np.full((50, 40), -1, "<f4")
    expected[18:22, 5] = 3
    again = reblock.open(url)
    assert np.array_equal(again[...], expected)
    assert (again.axes, again.attributes) == (("y", "x"), {"units": "K"})
    report = reblock.repartition(url, "memory://postgres/x.zarr", chunks=(50, 40))
    assert report.missing_chunks == 4
    with pytest.raises(reblock.TargetExistsError, match="exists"):
        reblock.create(url, shape=(3,), dtype="<f4", chunks="3")


def test_small_empty_arrays(url: str) -> None:
    array = reblock.create(url, shape=(3,), dtype=">i8", chunks="3", fill_value=5)
    array[1] = 2
    assert reblock.open(url)[...].tolist() == [5, 2, 5]


@pytest.mark.parametrize(
    ("value", "message"),
    [("text", "same_kind|not of type"), (2**40, "range|bounds"), (1.5, "not of type"), ([1, 2, 3], "do not fit")],
)
def test_values_that_do_not_fit_are_refused(url: str, value: Any, message: str) -> None:
    make(url, np.zeros((20,), "<i4"), chunks="5")
    array = reblock.open(url, mode="r+")
    with pytest.raises(reblock.UsageError, match=message):
        array[0:2] = value
    assert not array[...].any()


def test_arrays_are_updated_only_if_that_was_asked_for(url: str, tmp_path: Path) -> None:
    make(url, np.zeros((20,), "<i4"), chunks="5")
    with pytest.raises(reblock.UsageError, match=r"mode='r\+'"):
        reblock.open(url)[0] = 1
    np.save(tmp_path / "x.npy", np.zeros(3))
    with pytest.raises(reblock.UsageError, match="cannot be updated"):
        reblock.open(tmp_path / "x.npy", mode="r+")
    with pytest.raises(reblock.UsageError, match="PostgreSQL"):
        reblock.create(tmp_path / "y.npy", shape=(3,), dtype="f4", chunks="3")


def test_an_array_that_was_replaced_is_not_updated(url: str) -> None:
    make(url, np.zeros((20,), "<i4"), chunks="5")
    array = reblock.open(url, mode="r+")
    reblock.repartition(np.zeros((30,), "<i4"), url, chunks="6", overwrite=True)
    with pytest.raises(reblock.ChangedError, match="replaced"):
        array[0] = 1


def test_a_missing_chunk_is_an_error(url: str, sql: Callable[..., list[Any]]) -> None:
    make(url, np.zeros((20,), "<i4"), chunks="5")
    sql("DELETE FROM reblock.objects WHERE key = %s", f"{url.rpartition('::')[2]}/c/{1:020}")
    with pytest.raises(reblock.CorruptError):
        reblock.open(url)[...]
    with pytest.raises(reblock.CorruptError, match="missing"):
        reblock.open(url, mode="r+")[5:7] = 1


def test_large_chunks_are_moved_in_pieces(url: str) -> None:
    data = RANDOM.integers(0, 255, (3, 5 << 20)).astype(np.uint8)
    make(url, data, chunks=(1, 5 << 20))
    assert np.array_equal(reblock.open(url)[1, 7 : 4 << 20], data[1, 7 : 4 << 20])
    assert reblock.verify(data, url)


def test_chunks_have_a_limit(url: str) -> None:
    data = np.zeros((9 << 20,), "<f8")
    with pytest.raises(reblock.UsageError, match="64"):
        reblock.plan(data, url, chunks=(9 << 20,))


def test_an_array_is_not_made_below_another(url: str) -> None:
    make(url, np.zeros((20,), "<i4"), chunks="5")
    with pytest.raises(reblock.UsageError, match="is an array"):
        make(f"{url}/below", np.zeros((20,), "<i4"), chunks="5")


def test_stores_can_be_pickled(url: str) -> None:
    data = np.arange(2000.0)
    make(url, data, chunks="100")
    store = pickle.loads(pickle.dumps(reblock.open(url).store))
    assert np.array_equal(reblock.api.Array(store)[5:300], data[5:300])


# ---------------------------------------------------------------- SQL
VALUES: dict[str, list[Any]] = {
    "|b1": [False, True],
    "|i1": [-128, 127, 0],
    "<i2": [-(2**15), 2**15 - 1],
    ">i4": [-(2**31), 2**31 - 1, 5],
    "<i8": [-(2**63), 2**63 - 1, 2**53 + 1],
    ">u8": [2**64 - 1, 0, 2**63],
    "<u2": [65535],
    "<f2": [0.1, 65504, 6e-8, np.inf],
    "<f4": [0.1, -3.4e38, 1e-45, np.nan, -np.inf],
    ">f8": [0.1, 1.7976931348623157e308, 5e-324, -2.5, np.nan, np.inf, 1 / 3],
}


@pytest.mark.parametrize("dtype", VALUES)
def test_sql_reads_every_number(url: str, sql: Callable[..., list[Any]], dtype: str) -> None:
    data = np.array(VALUES[dtype], dtype)
    make(url, data, chunks="2")
    name = url.rpartition("::")[2]
    rows = sql("SELECT position, value FROM reblock.reblock_slice(%s, '{0}', %s)", name, [data.size])
    assert [position for position, _ in rows] == [[n] for n in range(data.size)]
    kind = int if data.dtype.kind in "biu" else float
    found = np.array([kind(value) for _, value in rows], dtype)
    assert found.tobytes() == data.tobytes() or np.array_equal(found, data, equal_nan=True)


@pytest.mark.parametrize("chunks", ["5,4,3", "3+8,6,7", "11,12,7"])
@pytest.mark.parametrize("order", [None, "1,2,0"])
def test_sql_reads_regions(url: str, sql: Callable[..., list[Any]], chunks: str, order: str | None) -> None:
    data = RANDOM.integers(0, 10**6, (11, 12, 7)).astype("<i4")
    make(url, data.transpose(2, 1, 0), transpose="2,1,0", chunks=chunks, chunk_order=order)
    name = url.rpartition("::")[2]
    for low, high in (((0, 0, 0), (11, 12, 7)), ((2, 3, 1), (9, 5, 6)), ((4, 4, 4), (5, 5, 5)), ((1, 1, 1), (1, 5, 5))):
        rows = sql("SELECT position, value FROM reblock.reblock_slice(%s, %s, %s)", name, list(low), list(high))
        found = {tuple(position): int(value) for position, value in rows}
        box = np.ndindex(*(b - a for a, b in zip(low, high, strict=True)))
        places = [tuple(int(a + n) for a, n in zip(low, index, strict=True)) for index in box]
        assert found == {place: data[place] for place in places}
        assert len(rows) == len(places)


def test_sql_knows_fill_values_and_lower_bounds(url: str, sql: Callable[..., list[Any]]) -> None:
    array = reblock.create(url, shape=(6, 2000), dtype="<i4", chunks="2,1000", fill_value=9, lower_bounds=(1, -5))
    array[0, 0] = 4
    name = url.rpartition("::")[2]
    assert sql("SELECT * FROM reblock.reblock_slice(%s, '{1,-5}', '{2,-3}')", name) == [([1, -5], 4), ([1, -4], 9)]
    assert sql("SELECT * FROM reblock.reblock_slice(%s, '{6,1994}', '{7,1995}')", name) == [([6, 1994], 9)]
    with pytest.raises(psycopg.Error, match="not inside"):
        sql("SELECT * FROM reblock.reblock_slice(%s, '{0,0}', '{1,1}')", name)
    assert sql("SELECT dims, lower_bounds, dtype FROM reblock.arrays WHERE name = %s", name) == [
        ([6, 2000], [1, -5], "<i4")
    ]


def test_sql_reads_an_array_without_axes(url: str, sql: Callable[..., list[Any]]) -> None:
    make(url, np.array(5, "<i4"), chunks=())
    assert sql("SELECT * FROM reblock.reblock_slice(%s, '{}', '{}')", url.rpartition("::")[2]) == [([], 5)]


def test_sql_refuses_what_it_cannot_read(url: str, sql: Callable[..., list[Any]]) -> None:
    make(url, np.zeros((2000, 1000), "u1"), chunks="1000,1000")
    name = url.rpartition("::")[2]
    query = "SELECT count(*) FROM reblock.reblock_slice(%s, '{0,0}', %s)"
    with pytest.raises(psycopg.Error, match="limit of 1000000"):
        sql(query, name, [1001, 1000])
    with pytest.raises(psycopg.Error, match="no array"):
        sql(query, "nothing", [1, 1])
    for number, (data, options, message) in enumerate(
        [
            (np.zeros((20, 20)), {"codec": "zstd:1"}, "compressed"),
            (np.zeros((20, 20), "c8"), {}, "not supported"),
            (np.zeros((20, 20), "S3"), {}, "not supported"),
            (np.zeros((20, 20), "f4"), {"chunk_order": "morton"}, "morton"),
        ]
    ):
        make(f"{url}-{number}", data, chunks="10,10", **options)
        with pytest.raises(psycopg.Error, match=message):
            sql(query, f"{name}-{number}", [1, 1])


def test_sql_reads_a_million_elements(url: str, sql: Callable[..., list[Any]]) -> None:
    data = RANDOM.integers(0, 100, (1000, 1000)).astype("<i4")
    make(url, data, chunks="300,300")
    name = url.rpartition("::")[2]
    assert sql("SELECT sum(value) FROM reblock.reblock_slice(%s, '{0,0}', '{1000,1000}')", name) == [(int(data.sum()),)]


# ---------------------------------------------------------------- injection
HOSTILE = ["x'; DROP TABLE reblock.objects; --", 'a"; SELECT 1', "%s %(key)s", "$$; DROP", "\\'; --", "a_b%", "{}"]


@pytest.mark.parametrize("text", HOSTILE)
def test_injection_does_nothing(server: Server, sql: Callable[..., list[Any]], text: str) -> None:
    url = f"{server.url}::hostile {text}"
    data = np.arange(3000, dtype="<i4").reshape(50, 60)
    count = sql("SELECT count(*) FROM reblock.objects") if POSTGRES.arrays(server.url, 1) else [(0,)]
    make("memory://postgres/hostile.zarr", data, chunks="10,60", overwrite=True)
    array = reblock.create(url, shape=(50, 60), dtype="<i4", chunks="10,60", attributes={text: text}, axes=(text, "x"))
    array[...] = data
    assert reblock.open(url).attributes == {text: text}
    assert reblock.open(url).axes == (text, "x")
    assert reblock.verify(data, url)
    rows = sql("SELECT sum(value) FROM reblock.reblock_slice(%s, '{0,0}', '{50,60}')", f"hostile {text}")
    assert rows == [(int(data.sum()),)]
    assert [name for name in POSTGRES.arrays(server.url, 1000) if name == f"hostile {text}"]
    POSTGRES.remove_folder(url)
    assert sql("SELECT count(*) FROM reblock.objects") == count
    for hostile in ([text], [1, text]):
        with pytest.raises(psycopg.Error):
            sql("SELECT * FROM reblock.reblock_slice('x', %s, %s)", hostile, hostile)


def test_a_hostile_entry_is_refused(url: str, sql: Callable[..., list[Any]]) -> None:
    make(url, np.zeros((2000,), "<i4"), chunks="100")
    key = f"{url.rpartition('::')[2]}/array"
    for change in (
        {"shape": [10**30]},
        {"dtype": "O"},
        {"chunks": [0]},
        {"codec": "pickle"},
        {"inline": True},
        {"attributes": [1]},
        {"lower_bounds": None},
        {"chunk_order": "0,0"},
        {"reblock": 99},
    ):
        text = json.dumps(change)
        sql("UPDATE reblock.objects SET description = description || %s::jsonb WHERE key = %s", text, key)
        with pytest.raises(reblock.FormatError):
            reblock.open(url)
        make(url + "x", np.zeros((2000,), "<i4"), chunks="100", overwrite=True)
        sql(
            "UPDATE reblock.objects SET description = (SELECT description FROM reblock.objects WHERE key = %s) "
            "WHERE key = %s",
            f"{url.rpartition('::')[2]}x/array",
            key,
        )


# ---------------------------------------------------------------- the command line
def run(*words: str) -> Result:
    return CliRunner().invoke(application, list(words))


def test_the_commands(server: Server, tmp_path: Path) -> None:
    url = f"postgresql://reblock:hush-hush@/postgres?host={server.folder}::commands"
    source, back = str(tmp_path / "x.npy"), str(tmp_path / "back.npy")
    np.save(source, np.arange(60000, dtype="<u2").reshape(200, 300))
    said = [
        run("plan", source, url, "--chunks", "50,50"),
        run("run", source, url, "--chunks", "50,50"),
        run("info", url),
        run("verify", source, url),
        run("status", url),
        run("clean", url),
        run("run", url, back, "--memory", "1MiB"),
        run("verify", url, back),
        run("run", url, f"{url}-2", "--chunks", "7,300", "--json"),
        run("verify", url, f"{url}-2", "--json"),
    ]
    assert [one.exit_code for one in said] == [0] * len(said), [one.stderr for one in said]
    said += [run("run", source, url, "--chunks", "9,9"), run("info", f"{url}-nothing"), run("status", f"{url}-3")]
    assert [one.exit_code for one in said[-3:]] == [1, 1, 1]
    assert "exists" in said[-3].stderr
    assert "commands-2" in said[-2].stderr
    assert "commands-2" in said[-1].stderr
    texts = [one.stdout + one.stderr for one in said]
    assert not [text for text in texts if "hush" in text or "reblock@" in text]
    assert Path(back).read_bytes() == Path(source).read_bytes()


def test_a_stopped_run_resumes(server: Server, tmp_path: Path) -> None:
    url = f"{server.url}::stopped"
    data = np.arange(80000, dtype="<u4").reshape(400, 200)
    reblock.repartition(data, tmp_path / "x.zarr", chunks="20,20")
    seen = iter(range(10**6))
    job = reblock.plan(tmp_path / "x.zarr", url, chunks="40,40", memory="200kB")
    with pytest.raises(KeyboardInterrupt):
        reblock.run(job, cancelled=lambda: next(seen) > 60)
    status = reblock.status(url)
    assert status is not None
    assert status.state == "stopped"
    assert status.target == locate(url).path
    assert "reblock@" not in json.dumps(status.to_json())
    with pytest.raises(reblock.FormatError):
        reblock.open(url)
    report = reblock.resume(url)
    assert report.resumed_boxes == status.finished_boxes
    assert reblock.verify(data, url)
    assert reblock.status(url) is None


def test_a_cleaned_run_leaves_nothing(server: Server, tmp_path: Path, sql: Callable[..., list[Any]]) -> None:
    url = f"{server.url}::cleaned"
    reblock.repartition(np.zeros((400, 200)), tmp_path / "x.zarr", chunks="20,20")
    seen = iter(range(10**6))
    job = reblock.plan(tmp_path / "x.zarr", url, chunks="40,40", memory="400kB")
    with pytest.raises(KeyboardInterrupt):
        reblock.run(job, cancelled=lambda: next(seen) > 60)
    assert reblock.clean(url)
    assert sql("SELECT key FROM reblock.objects WHERE key LIKE 'cleaned%%'") == []


# ---------------------------------------------------------------- what goes wrong
def test_an_unreachable_server_is_one_clear_error(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(5))
    url = f"postgresql://me:hush@/db?host={tmp_path}::x"
    for words in (("info", url), ("run", str(tmp_path / "x.npy"), url), ("run", url, str(tmp_path / "y.npy")),
                  ("status", url), ("clean", url), ("verify", url, url)):  # fmt: skip
        found = run(*words)
        assert found.exit_code in (1, 2)
        assert "no connection to the database" in found.stderr
        assert len(found.stderr.splitlines()) == 1
        assert "hush" not in found.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


def test_the_extra_is_named_where_it_is_missing(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(5))
    script = "import sys; sys.modules['psycopg'] = None\nfrom reblock.cli import main; main()"
    for words in (("info", "postgresql:///db::x"), ("run", str(tmp_path / "x.npy"), "postgresql:///db::x")):
        found = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, check=False)
        assert found.returncode == 1
        assert "pip install 'reblock[postgres]'" in found.stderr
        assert len(found.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


def test_a_user_without_rights_is_refused(server: Server, sql: Callable[..., list[Any]]) -> None:
    make(f"{server.url}::readable", np.zeros((20,)), chunks="5")
    sql("DROP ROLE IF EXISTS reader")
    sql("CREATE ROLE reader LOGIN")
    try:
        url = f"postgresql:///postgres?host={server.folder}&user=reader::readable"
        with pytest.raises(reblock.DiskError, match="EACCES"):
            reblock.open(url)
        sql("GRANT USAGE ON SCHEMA reblock TO reader")
        sql("GRANT SELECT ON ALL TABLES IN SCHEMA reblock TO reader")
        assert not reblock.open(url)[...].any()
        with pytest.raises(reblock.DiskError, match="EACCES"):
            reblock.repartition(np.zeros(5), f"{url}-2", chunks="5")
        with pytest.raises(reblock.DiskError, match="EACCES"):
            reblock.open(url, mode="r+")[0] = 1
    finally:
        POSTGRES._connections.close()
        sql("DROP OWNED BY reader")
        sql("DROP ROLE reader")


def test_a_schema_of_another_program_is_left_alone(server: Server, sql: Callable[..., list[Any]]) -> None:
    sql("CREATE DATABASE other")
    url = f"postgresql://reblock@/other?host={server.folder}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA reblock")
    with pytest.raises(reblock.FormatError, match="not of this version"):
        reblock.create(f"{url}::x", shape=(3,), dtype="f4", chunks="3")


def test_one_array_has_one_address(server: Server) -> None:
    """However its URL is written, a source is not overwritten."""
    url = f"{server.url}::same"
    make(url, np.zeros((20,)), chunks="5")
    other = f"postgresql://reblock@/postgres?host={server.folder}&port=5432::same"
    with pytest.raises(reblock.UsageError, match="overlap"):
        reblock.repartition(url, other, chunks="4", overwrite=True)


# ---------------------------------------------------------------- the order of rows on disk
def test_cluster_puts_rows_and_their_bytes_in_chunk_order(url: str, sql: Callable[..., list[Any]]) -> None:
    """As the page says: rows come in the order of writing, and one SQL command sorts them."""
    expected = RANDOM.integers(0, 2**31, (40, 40, 40)).astype("<i4")
    make(url, expected, chunks="10,10,10", chunk_order="2,0,1", codec="none")
    name = url.rpartition("::")[2]
    array = reblock.open(url, mode="r+")
    for place in RANDOM.permutation(64)[:40]:
        at = tuple(slice(10 * n, 10 * n + 10) for n in np.unravel_index(place, (4, 4, 4)))
        array[at] = expected[at] = RANDOM.integers(0, 2**31, (10, 10, 10))
    (toast,) = sql("SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = 'reblock.objects'::regclass")[0]

    def on_disk() -> tuple[list[str], list[bytes]]:
        """Keys in the order of rows, and the first bytes of chunks in the order in which they are stored."""
        rows = sql("SELECT key FROM reblock.objects WHERE key LIKE %s ORDER BY ctid", f"{name}/c/%")
        stored = sql(f"SELECT substr(chunk_data, 1, 8) FROM {toast} WHERE chunk_seq = 0 ORDER BY ctid")
        return [key for (key,) in rows], [bytes(data) for (data,) in stored]

    wanted = [
        expected[tuple(slice(10 * n, 10 * n + 10) for n in (i, j, k))].tobytes()[:8]
        for k in range(4)
        for i in range(4)
        for j in range(4)
    ]
    keys, _ = on_disk()
    assert keys != sorted(keys)
    sql("CLUSTER reblock.objects USING objects_pkey")
    keys, stored = on_disk()
    assert keys == sorted(keys)
    assert [data for data in stored if data in set(wanted)] == wanted
    assert np.array_equal(reblock.open(url)[...], expected)
