"""Plan only: the cost of repartitioning 80 GiB under several budgets, by arithmetic alone; no array exists."""

import reblock
from reblock.units import format_size

print("memory      strategy       seeks        read        peak")
for memory in ("128MiB", "512MiB", "1GiB", "4GiB"):
    job = reblock.plan(
        shape=(3500, 3500, 3500),
        dtype="u2",
        source_chunks=(350, 350, 350),
        chunks=(250, 250, 250),
        memory=memory,
        device="hdd",
    )
    cost = job.cost
    print(
        f"{memory:10}  {job.plan.strategy:10} {cost.seeks:>9,}  {format_size(cost.bytes_read):>10}"
        f"  {format_size(cost.peak_bytes):>10}"
    )
print(f"no plan can have fewer than {job.decision.problem.lower_bound_seeks:,} seeks")

try:
    reblock.plan(
        shape=(3500, 3500, 3500),
        dtype="u2",
        source_chunks=(350, 350, 350),
        source_codec="zstd",
        chunks=(250, 250, 250),
        memory="16MiB",
    )
except reblock.InfeasibleError as error:
    print(error)
