"""The papers' own problems and what is known of them, for tests; they live in `reblock.strategies.papers`."""

from __future__ import annotations

from reblock.strategies.papers import (
    CLUSTERED,
    CONFIGS_3500,
    CONFIGS_8000,
    ITEM_BYTES,
    MULTIPLE,
    SCALED_25,
    Config,
    Known,
    Shape,
)

__all__ = [
    "CLUSTERED",
    "CONFIGS_3500",
    "CONFIGS_8000",
    "ITEM_BYTES",
    "MULTIPLE",
    "SCALED_25",
    "Config",
    "Known",
    "Shape",
]
