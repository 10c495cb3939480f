"""What authors of formats and strategies need to test their own: contracts, generators, a reference reader.

`contract.FormatContract` runs any storage format through one suite, `reference_io` moves arrays by the rules
of the Store protocol alone, `arrays` makes arrays and Hypothesis strategies for them. The contract needs
pytest and Hypothesis.
"""

from __future__ import annotations

import sys

if "pytest" in sys.modules:
    # Before the contract is imported, so that its failures show the values that were compared.
    sys.modules["pytest"].register_assert_rewrite("reblock.testing.contract", "reblock.testing.compare")
