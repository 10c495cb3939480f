"""The medium that records what is done to it, for tests that compare predictions with it."""

from reblock.storage.media.recording import Opening, RecordingMedium

__all__ = ["Opening", "RecordingMedium"]
