"""The disk that writes down what it does, for tests that hold predictions against it."""

from reblock.engine.recording import RecordingDisk, Visit

__all__ = ["RecordingDisk", "Visit"]
