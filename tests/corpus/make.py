"""The corpus of hostile and odd input, made anew each time: no hostile file is committed.

::

    python tests/corpus/make.py FOLDER        every case in a folder of its own, and what is to become of it
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import corpus.blocks
import corpus.encoded
import corpus.hdf5
import corpus.minc
import corpus.netcdf
import corpus.nifti
import corpus.npy
import corpus.tiff
import corpus.zarr  # noqa: F401 - each adds its cases
from corpus.cases import CASES, Case


def make(case: Case, folder: Path) -> str:
    """Make a case's files in a new folder; its array as the command line takes it."""
    folder.mkdir(parents=True)
    return f"{folder}/{case.make(folder)}"


def main() -> None:
    """Make every case."""
    base = Path(sys.argv[1])
    for name, case in CASES.items():
        location = make(case, base / name)
        print(f"{location}: info {case.info or 'works'}, run {case.run or 'works'}")


if __name__ == "__main__":
    main()
