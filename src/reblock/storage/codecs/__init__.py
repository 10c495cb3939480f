"""Codecs: how bytes of a unit are encoded and decoded, and the memory that takes; no format is known here."""
