"""The contract of media on which targets are built: the lock, the log, publishing, scratch.

::

    from reblock.testing.workspace import TargetMediumContract


    class TestMyMedium(TargetMediumContract):
        medium = MEDIUM

It contains the contract of all media.
"""

from __future__ import annotations

import pytest

from reblock.errors import LockedError
from reblock.model.workspace import TargetMedium, Workspace
from reblock.testing.media import MediumContract


class TargetMediumContract(MediumContract):
    """Subclass with a name that pytest collects, and set `medium` (or override `make_medium`)."""

    def make_target_medium(self) -> TargetMedium:
        """The medium under test."""
        medium = self.make_medium()
        assert isinstance(medium, TargetMedium)
        return medium

    def workspace(self, folder: str) -> Workspace:
        """The workspace of a target in the test's folder."""
        return self.make_target_medium().workspace(f"{folder}/y")

    def fill(self, workspace: Workspace, text: bytes = b"new") -> None:
        """Build an array of one object."""
        self.make_medium().write(f"{workspace.array}/part", [text])

    # ---------------------------------------------------------------- the lock
    def test_nothing_is_made_before_the_lock(self, folder: str) -> None:
        workspace = self.workspace(folder)
        assert (workspace.is_there, workspace.has_target, workspace.holder()) == (False, False, None)
        workspace.look()
        assert self.sorted_names(folder) == []

    def test_one_holds_the_lock(self, folder: str) -> None:
        one, two = self.workspace(folder), self.workspace(folder)
        with one:
            assert one.is_there
            assert "process" in str(two.holder())
            for attempt in (two.look, two.__enter__):
                with pytest.raises(LockedError, match="process"):
                    attempt()
        assert two.holder() is None
        with two:
            pass
        assert self.sorted_names(folder) == []

    # ---------------------------------------------------------------- the log
    def test_lines_are_read_in_their_order(self, folder: str) -> None:
        lines = [b"%d %s\n" % (number, b"x" * number) for number in range(12)]
        with self.workspace(folder) as workspace:
            assert workspace.find_log() is None
            log = workspace.begin_log(lines[0])
            done = len(lines[0])
            for line in lines[1:]:
                log.append(line, done)
                done += len(line)
            assert list(log.lines()) == lines
        # The log outlives the lock.
        with workspace.looking() as found:
            assert found is not None
            assert list(found.lines()) == lines
        with self.workspace(folder) as workspace:
            again = workspace.find_log()
            assert again is not None
            assert list(again.lines()) == lines

    def test_what_follows_an_appended_line_is_removed(self, folder: str) -> None:
        with self.workspace(folder) as workspace:
            log = workspace.begin_log(b"0\n")
            log.append(b"1\n", 2)
            log.append(b"2\n", 4)
            log.append(b"one\n", 2)
            assert list(log.lines()) == [b"0\n", b"one\n"]

    def test_a_new_log_has_nothing_of_the_old_one(self, folder: str) -> None:
        with self.workspace(folder) as workspace:
            workspace.begin_log(b"old\n").append(b"older\n", 4)
            assert workspace.has_log
            workspace.forget_log()
            assert workspace.find_log() is None
            assert list(workspace.begin_log(b"new\n").lines()) == [b"new\n"]

    # ---------------------------------------------------------------- the array
    def test_publishing(self, folder: str) -> None:
        with self.workspace(folder) as workspace:
            workspace.begin_log(b"{}\n")
            self.fill(workspace)
            assert not workspace.has_target
            identity = workspace.identity()
            workspace.publish(replace=False)
            assert workspace.is_published(identity)
            workspace.remove(finished=True)
        assert self.workspace(folder).has_target
        assert self.sorted_names(folder) == ["y"]
        assert self.read(f"{folder}/y/part") == b"new"

    def test_an_unfinished_run_is_kept_and_cleared(self, folder: str) -> None:
        with self.workspace(folder) as workspace:
            workspace.begin_log(b"{}\n")
            self.fill(workspace)
        workspace = self.workspace(folder)
        assert workspace.is_there
        assert not workspace.has_target
        with workspace:
            assert self.read(f"{workspace.array}/part") == b"new"
            assert workspace.clear()
            assert not workspace.has_log
        assert self.sorted_names(folder) == []

    def test_an_array_is_made_again(self, folder: str) -> None:
        with self.workspace(folder) as workspace:
            workspace.begin_log(b"{}\n")
            self.fill(workspace)
            workspace.clear_array()
            with pytest.raises(FileNotFoundError):
                self.make_medium().status(f"{workspace.array}/part")
            self.fill(workspace, b"again")
            workspace.publish(replace=False)
            workspace.remove(finished=True)
        assert self.read(f"{folder}/y/part") == b"again"

    def test_an_old_target_is_replaced(self, folder: str) -> None:
        self.make_medium().write(f"{folder}/y/part", [b"old"])
        with self.workspace(folder) as workspace:
            assert workspace.has_target
            workspace.begin_log(b"{}\n")
            if workspace.swaps:
                assert self.read(f"{folder}/y/part") == b"old"
            workspace.clear_array()
            self.fill(workspace)
            workspace.publish(replace=True)
            workspace.remove(finished=True)
        assert self.sorted_names(folder) == ["y"]
        assert self.read(f"{folder}/y/part") == b"new"

    # ---------------------------------------------------------------- scratch, stamps, places
    def test_private_folders(self, folder: str) -> None:
        medium, key = self.make_target_medium(), f"{folder}/scratch"
        assert medium.private_folder(key) is None
        made = medium.private_folder(key, make=True)
        assert made is not None
        medium.write(f"{made.reach}/0/block", [b"x" * 5000])
        assert made.names() == ["0"]
        assert medium.used_bytes(key) >= 5000
        made.check_place()
        assert not made.remove_itself()
        made.remove("0")
        assert made.remove_itself()
        made.close()
        assert self.sorted_names(folder) == []

    def test_stamps_are_those_of_the_status(self, folder: str) -> None:
        medium, keys = self.make_target_medium(), [f"{folder}/{name}" for name in "ab"]
        medium.write(keys[0], [b"some"])
        for stamps in (medium.stamps(keys), medium.settle(keys)):
            found = medium.status(keys[0])
            times = [0, 0] if self.stamps_bytes else [found.modified_ns, found.changed_ns]
            assert stamps.tolist() == [[found.identity, found.size, *times], [0, 0, 0, 0]]

    def test_places(self, folder: str) -> None:
        place = self.make_target_medium().place
        inside, beside = place(f"{folder}/a/b"), place(f"{folder}/ab")
        assert place(f"{folder}/a").meets(inside)
        assert inside.meets(place(f"{folder}/a"))
        assert not beside.meets(inside)

    def test_removing_folders(self, folder: str) -> None:
        medium = self.make_target_medium()
        for name in ("a/b/c", "a/d", "ab"):
            medium.write(f"{folder}/{name}", [b"x"])
        medium.remove_folder(f"{folder}/a")
        medium.remove_folder(f"{folder}/nothing")
        assert self.sorted_names(folder) == ["ab"]

    def sorted_names(self, folder: str) -> list[str]:
        """All names in a folder."""
        return sorted(name for name, _ in self.make_medium().entries(folder))
