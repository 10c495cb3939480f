"""Tools for authors of formats, media and strategies: contracts, generators, a reference reader.

`contract.FormatContract` tests a storage format, `trees.TreeContract` one that holds several arrays,
`media.MediumContract` and `workspace.TargetMediumContract` a medium. `reference_io` moves arrays by the rules of the
Store protocol alone. `recording` counts the operations on a medium. `arrays`, `sample_trees` and `problems` make
arrays, datasets and problems. All of it needs pytest and Hypothesis: install `reblock[testing]`.
"""

from __future__ import annotations

import sys

if "pytest" in sys.modules:
    # Registered before the contracts are imported, so that their failures show the compared values.
    sys.modules["pytest"].register_assert_rewrite(
        "reblock.testing.contract",
        "reblock.testing.unfinished",
        "reblock.testing.trees",
        "reblock.testing.media",
        "reblock.testing.workspace",
        "reblock.testing.compare",
    )
