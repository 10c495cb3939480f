"""Tables of regions: statistics, one row for each region, or values, one row for each element."""

from __future__ import annotations

import csv
import io
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from reblock.api.extract.regions import Bools, Region
from reblock.errors import UsageError
from reblock.model.medium import WriteHandle

Values = npt.NDArray[Any]
#: Columns of statistics.
COLUMNS = ("region", "count", "mean", "std", "min", "max", "sum")
#: Endings of tables.
ENDINGS = (".csv", ".npz", ".parquet")
#: Rows that are written at a time, and elements whose squares are taken at a time.
_ROWS, _FEW = 1 << 16, 1 << 12
#: Memory of writing a table: rows of text or columns, beside the elements.
WRITING_BYTES = {".csv": 2 << 20, ".npz": 128 << 10, ".parquet": 8 << 20}
#: Memory of statistics beside the elements.
STATISTICS_BYTES = 128 << 10


def table_ending(path: str) -> str:
    """The kind of a table by its name; UsageError if it is none, or its library is missing."""
    ending = next((one for one in ENDINGS if path.lower().endswith(one)), None)
    if ending is None:
        raise UsageError(f"{path}: a table ends in {', '.join(ENDINGS)}")
    if ending == ".parquet" and find_spec("pyarrow") is None:
        raise UsageError(f"{path}: Parquet needs the module pyarrow: pip install 'reblock[parquet]'")
    return ending


@dataclass
class Statistics:
    """Count, mean, deviation, extremes and sum of elements that come in parts."""

    count: int = 0
    mean: Any = math.nan
    """Mean of the elements so far, in double precision or better."""
    squares: Any = 0.0
    """Sum of squared differences from the mean."""
    least: Any = None
    most: Any = None
    total: Any = 0

    def add(self, values: Values) -> None:
        """Take more elements into account; those that are infinite or no numbers spread as in numpy."""
        if values.size:
            with np.errstate(all="ignore"):
                self._add(values)

    def _add(self, values: Values) -> None:
        wide = np.result_type(values.dtype.newbyteorder("="), np.float64)
        mean = values.mean(dtype=wide)
        squares = _squares(values, mean, wide)
        if not self.count:
            self.mean, self.squares = mean, squares
        else:
            whole, difference = self.count + values.size, mean - self.mean
            self.mean += difference * (values.size / whole)
            self.squares += squares + difference**2 * (self.count * values.size / whole)
        self.count += values.size
        least, most = values.min().item(), values.max().item()
        self.least = least if self.least is None else _first(self.least, least, smaller=True)
        self.most = most if self.most is None else _first(self.most, most, smaller=False)
        self.total += _total(values)

    def row(self, name: str) -> dict[str, Any]:
        """The columns of a table."""
        spread = math.nan if not self.count else float(np.sqrt(self.squares / self.count))
        nothing = math.nan if self.least is None else self.least
        most = math.nan if self.most is None else self.most
        return dict(zip(COLUMNS, (name, self.count, float(self.mean), spread, nothing, most, self.total), strict=True))


def check_numbers(dtype: np.dtype[Any]) -> None:
    """Raise UsageError if elements have no statistics."""
    if dtype.kind not in "biuf":
        raise UsageError(f"there are no statistics of {dtype} elements; values can be extracted")


def _squares(values: Values, mean: Any, wide: Any) -> Any:
    found: Any = 0.0
    flat = values.reshape(-1)
    for start in range(0, flat.size, _FEW):
        found += np.square(flat[start : start + _FEW].astype(wide) - mean).sum()
    return found


def _total(values: Values) -> Any:
    """The sum: exact for integers."""
    if values.dtype.kind == "f":
        return float(values.sum(dtype=np.result_type(values.dtype.newbyteorder("="), np.float64)))
    if values.dtype.itemsize < 8:
        return int(values.sum(dtype=np.int64))
    low = int((values & 0xFFFFFFFF).sum(dtype=np.uint64))
    return low + (int((values >> 32).sum(dtype=np.int64)) << 32)


def _first(one: Any, two: Any, *, smaller: bool) -> Any:
    """The extreme of two numbers; not a number if one is not."""
    if any(isinstance(value, float) and math.isnan(value) for value in (one, two)):
        return math.nan
    return min(one, two) if smaller else max(one, two)


# ---------------------------------------------------------------- files
class TableStream(io.RawIOBase):
    """A new object on a medium, written from its start to its end."""

    def __init__(self, handle: WriteHandle) -> None:
        self._handle: WriteHandle | None = handle
        self._position = 0

    def discard(self) -> None:
        """Ignore everything from now on: libraries write once more when a table is given up."""
        self._handle = None

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Nothing waits here; a library may also ask after a table was given up and closed."""

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        if self._handle is not None:
            self._handle.write([view], self._position)
        self._position += len(view)
        return len(view)


class ValueTable(Protocol):
    """A table of values, region by region."""

    def add(self, region: Region, values: Values, marked: Bools | None) -> None:
        """Add the elements of a region's box, or those that are marked."""

    def close(self) -> None:
        """Finish the table."""


class NpzValues:
    """An array of values and an array of positions for each region, in an .npz file."""

    def __init__(self, stream: TableStream) -> None:
        self._zip = zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True)

    def add(self, region: Region, values: Values, marked: Bools | None) -> None:
        self._put(region.name, values.reshape(-1) if marked is None else values[marked])
        if marked is not None:
            flat = np.flatnonzero(marked)
            self._put(f"{region.name}.index", _positions(region, flat))
        self._put(f"{region.name}.origin", np.array(region.box.start, np.int64))
        self._put(f"{region.name}.shape", np.array(region.box.shape, np.int64))

    def _put(self, name: str, array: Values) -> None:
        with self._zip.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
            np.lib.format.write_array(file, array, allow_pickle=False)

    def close(self) -> None:
        self._zip.close()


class CsvValues:
    """Rows of region, position and value, in a CSV file."""

    def __init__(self, stream: TableStream, axes: Sequence[str]) -> None:
        self._stream = stream
        self._write([["region", *axes, "value"]])

    def add(self, region: Region, values: Values, marked: Bools | None) -> None:
        for positions, some in _rows(region, values, marked, _FEW):
            columns = positions.T.tolist()
            self._write([region.name, *place] for place in zip(*columns, map(_text, some.tolist()), strict=True))

    def _write(self, rows: Any) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        self._stream.write(text.getvalue().encode())

    def close(self) -> None:
        """Nothing is left to write."""


class ParquetValues:
    """Rows of region, position and value, in a Parquet file."""

    def __init__(self, stream: TableStream, axes: Sequence[str], dtype: np.dtype[Any]) -> None:
        self._arrow: Any = import_module("pyarrow")
        arrow, parquet = self._arrow, import_module("pyarrow.parquet")
        if dtype.kind not in "biuf" or dtype.itemsize > 8:
            raise UsageError(f"Parquet has no elements of type {dtype}: use .npz")
        fields = [("region", arrow.string()), *((axis, arrow.int64()) for axis in axes)]
        value = arrow.from_numpy_dtype(dtype.newbyteorder("="))
        self._schema = arrow.schema([*fields, ("value", value)])
        self._writer = parquet.ParquetWriter(stream, self._schema)

    def add(self, region: Region, values: Values, marked: Bools | None) -> None:
        arrow = self._arrow
        for positions, some in _rows(region, values, marked, _ROWS):
            native = some.astype(some.dtype.newbyteorder("="), copy=False)
            columns = [arrow.repeat(region.name, len(some)), *map(arrow.array, positions.T), arrow.array(native)]
            self._writer.write_table(arrow.table(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()


def value_table(ending: str, stream: TableStream, axes: Sequence[str], dtype: np.dtype[Any]) -> ValueTable:
    """A new table of values."""
    if ending == ".npz":
        return NpzValues(stream)
    return CsvValues(stream, axes) if ending == ".csv" else ParquetValues(stream, axes, dtype)


def write_statistics(ending: str, stream: TableStream, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a table of statistics."""
    columns = {name: [row[name] for row in rows] for name in COLUMNS}
    if ending == ".csv":
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([[_text(cell) for cell in row.values()] for row in rows])
        stream.write(text.getvalue().encode())
    elif ending == ".npz":
        file = io.BytesIO()
        table: dict[str, Any] = {name: _column(cells) for name, cells in columns.items()}
        np.savez(file, **table)
        stream.write(file.getvalue())
    else:
        arrow, parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        made = {name: arrow.array(_column(cells)) for name, cells in columns.items()}
        parquet.write_table(arrow.table(made), stream)


def _column(cells: Sequence[Any]) -> Values:
    """A column of one type; numbers that neither tables nor integers hold become floats."""
    column = np.array(cells)
    return column.astype(np.float64) if column.dtype in (object, np.longdouble) else column


def _rows(region: Region, values: Values, marked: Bools | None, step: int) -> Any:
    """Positions in the source and values of the elements of a region, some rows at a time."""
    flat = values.reshape(-1)
    places = None if marked is None else np.flatnonzero(marked)
    count = flat.size if places is None else places.size
    for start in range(0, count, step):
        stop = min(start + step, count)
        some = np.arange(start, stop) if places is None else places[start:stop]
        yield _positions(region, some), flat[some]


def _positions(region: Region, flat: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Positions in the source of elements that are numbered in a region's box."""
    box = region.box
    if not box.ndim:
        return np.zeros((flat.size, 0), np.int64)
    return np.stack(np.unravel_index(flat, box.shape), axis=1) + np.array(box.start, np.int64)


def _text(cell: Any) -> Any:
    """A cell of a CSV file: the shortest text that gives the same number again."""
    if isinstance(cell, bool):
        return int(cell)
    return repr(cell) if isinstance(cell, float) else cell
