"""A medium that records its operations, for tests that compare them with predictions."""

from reblock.storage.media.recording import Opening, RecordingMedium

__all__ = ["Opening", "RecordingMedium"]
