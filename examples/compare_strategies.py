"""Compare strategies: plan and run the same job with each strategy that can solve it."""

import tempfile
from pathlib import Path

import numpy as np

import reblock
from reblock.strategies import strategies

SHAPE, SOURCE, TARGET, MEMORY = (140, 140, 140), (35, 35, 35), (28, 35, 28), "256KiB"

with tempfile.TemporaryDirectory() as folder:
    scan, blocks = Path(folder, "scan.npy"), f"{folder}/source/"
    np.save(scan, np.arange(140**3, dtype="<u2").reshape(SHAPE))
    reblock.repartition(scan, blocks, chunks=SOURCE)

    print(f"{SHAPE} from {SOURCE} to {TARGET} with {MEMORY}")
    print("strategy         seeks     opens    read     seeks counted")
    for name in ["auto", *strategies()]:
        target = f"{folder}/{name}/"
        try:
            job = reblock.plan(blocks, target, chunks=TARGET, memory=MEMORY, strategy=name, objective="seeks")
        except reblock.Refused as refusal:
            print(f"{name:13} {refusal}")
            continue
        row = f"{name:13} {job.cost.seeks:>8,}  {job.cost.opens:>8,}  {job.cost.read_amplification:>4.2f} ×"
        if job.cost.seeks > 20_000:
            print(f"{row}         not run")
            continue
        measured = reblock.run(job).measured
        print(f"{row}  {measured.seeks:>14,}")
        assert measured.seeks == job.cost.seeks
