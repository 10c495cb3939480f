"""Dask IO: dask.array programs that read and write files in few large pieces.

A graph of dask.array loads chunk by chunk, and each chunk is many small pieces of a file. Here loads become pieces of
buffers that are read at once, and chunks that are stored become parts of buffers that are written at once.

Guédon, Hayot-Sasson and Glatard, "Dask IO for sequentially splitting, merging and resplitting multidimensional arrays".
"""

try:
    import dask.array  # noqa: F401
except ImportError as error:
    raise ImportError(f"reblock.dask needs dask: pip install 'reblock[dask]' ({error})") from error

from reblock.dask.arrays import from_array, rechunk, store
from reblock.dask.optimizing import optimize_graph
from reblock.dask.report import BufferReport
from reblock.dask.switch import disable, enable, explain, io, optimize

__all__ = [
    "BufferReport",
    "disable",
    "enable",
    "explain",
    "from_array",
    "io",
    "optimize",
    "optimize_graph",
    "rechunk",
    "store",
]
