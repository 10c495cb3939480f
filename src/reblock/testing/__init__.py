"""What authors of formats, media and strategies need to test their own: contracts, generators, a reference reader.

`contract.FormatContract` runs any storage format through one suite, and `media.MediumContract` any medium.
`reference_io` moves arrays by the rules of the Store protocol alone, `recording` counts what is done to a medium,
`arrays` makes arrays and Hypothesis strategies for them. The contracts need pytest and Hypothesis.
"""

from __future__ import annotations

import sys

if "pytest" in sys.modules:
    # Before the contracts are imported, so that their failures show the values that were compared.
    sys.modules["pytest"].register_assert_rewrite(
        "reblock.testing.contract", "reblock.testing.unfinished", "reblock.testing.media", "reblock.testing.compare"
    )
