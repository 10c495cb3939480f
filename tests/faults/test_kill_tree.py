"""A process that is killed while it makes a dataset leaves nothing that passes for one; made again, it is whole."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from reblock.errors import ReblockError
from reblock.model.codec import Codec
from reblock.model.dataset import GroupSchema, Tree, TreeFormat
from reblock.model.schema import Schema
from reblock.storage import registry

pytestmark = pytest.mark.faults
PROGRAM = """
import sys
from test_kill_tree import make
print("begin", flush=True)
make(sys.argv[1], sys.argv[2])
"""


def tree() -> Tree:
    """Many arrays, half of them encoded."""
    codecs = ("none", "gzip:1")
    arrays = {
        f"g{n % 7}/a{n}": Schema((8, 8), np.dtype("<f4"), (4, 4), codec=Codec.parse(codecs[n % 2]), axes=("y", "x"))
        for n in range(200)
    }
    return Tree({"": GroupSchema({"title": "all"})}, arrays)


def make(name: str, path: str) -> Tree:
    """Make the dataset, without elements."""
    kind = registry.get(name)
    assert isinstance(kind, TreeFormat)
    adapted = kind.adapt_tree(tree(), ())
    kind.create_tree(path, "", adapted)
    return adapted


@pytest.mark.parametrize("name", ["zarr", "zarr2", "hdf5"])
def test_a_killed_creation(tmp_path: Path, name: str) -> None:
    chosen = random.Random(name)
    kind = registry.get(name)
    assert isinstance(kind, TreeFormat)
    for number in range(5):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = str(folder / ("x.h5" if name == "hdf5" else "x.zarr"))
        where = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, name, path], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": where}
        )
        assert process.stdout
        process.stdout.readline()
        time.sleep(chosen.uniform(0, 0.3))
        process.kill()
        process.communicate()
        if name != "hdf5" and os.path.exists(path):
            assert not kind.probe(path)
            with pytest.raises(ReblockError):
                registry.open_tree(path, name)
        # What a run does: it clears what is there and makes it again.
        shutil.rmtree(folder)
        folder.mkdir()
        adapted = make(name, path)
        for array in ("g0/a0", "g1/a1", "g2/a9"):
            if array in adapted.arrays:
                kind.reopen(path, array, adapted.arrays[array]).abort()
        assert os.listdir(folder) == [os.path.basename(path)]
