"""The journal: what it keeps through crashes and damage."""

import errno
from pathlib import Path

import pytest

from kilonova.catalog.mig import Slot
from kilonova.gpu.mig.journal import Journal, Released, Reserved, summarise
from kilonova.gpu.mig.node_lock import EngineIsRunning, NodeLock
from kilonova.gpu.mig.plan.steps import CreateInstance

SLOT = Slot("1g.10gb", 3)
STEP = CreateInstance("GPU-1", SLOT, "pod")


def reserved(holder: str, start: int = 3) -> Reserved:
    return Reserved(holder, "GPU-1", Slot("1g.10gb", start))


def reopened(path: Path) -> Journal:
    journal = Journal(path)
    journal.close()
    return journal


def test_reservations_and_unfinished_steps_are_read_back(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.reserve([reserved("a"), reserved("b", 4)])
    journal.end(journal.begin(STEP), instance="MIG-1")
    number = journal.begin(STEP)
    journal.release("b")
    journal.close()
    contents = reopened(tmp_path / "j").contents
    assert contents.reservations == (reserved("a"),)
    assert [(each.number, each.step) for each in contents.unfinished] == [(number, STEP)]
    assert contents.damaged == 0


def test_every_cut_leaves_a_journal_that_can_be_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    for start in range(4):
        journal.reserve([reserved(f"pod-{start}", start)])
    journal.close()
    data = (tmp_path / "j").read_bytes()
    lines = data.splitlines(keepends=True)
    for length in range(0, len(data) + 1, 11):
        (tmp_path / "j").write_bytes(data[:length])
        whole = sum(1 for count in range(len(lines)) if len(b"".join(lines[: count + 1])) <= length)
        cut = Journal(tmp_path / "j")
        assert len(cut.contents.reservations) == whole
        assert cut.contents.damaged == 0
        cut.reserve([reserved("later", 6)])
        cut.close()
        assert len(reopened(tmp_path / "j").contents.reservations) == whole + 1


def test_damaged_line_is_skipped_and_counted(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.reserve([reserved("a", 0)])
    journal.reserve([reserved("b", 1)])
    journal.reserve([reserved("c", 2)])
    journal.close()
    data = bytearray((tmp_path / "j").read_bytes())
    data[data.index(b'"b"') + 1] = ord("x")
    (tmp_path / "j").write_bytes(data)
    contents = reopened(tmp_path / "j").contents
    assert [each.holder for each in contents.reservations] == ["a", "c"]
    assert contents.damaged == 1


def test_journal_is_compacted(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", compact_after=20)
    journal.reserve([reserved("stays")])
    open_step = journal.begin(STEP)
    for number in range(200):
        journal.reserve([reserved(f"pod-{number}", 4)])
        journal.release(f"pod-{number}")
    journal.close()
    assert len((tmp_path / "j").read_bytes().splitlines()) < 40
    contents = reopened(tmp_path / "j").contents
    assert contents.reservations == (reserved("stays"),)
    assert [each.number for each in contents.unfinished] == [open_step]


def test_failed_write_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "j")
    journal.reserve([reserved("a")])

    def fail(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("kilonova.gpu.mig.journal.os.fsync", fail)
        with pytest.raises(OSError, match="No space"):
            journal.reserve([reserved("b", 4)])
    journal.reserve([reserved("c", 5)])
    journal.close()
    holders = [each.holder for each in reopened(tmp_path / "j").contents.reservations]
    assert holders == ["a", "c"]


def test_closed_journal_refuses_late_entries(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j")
    journal.close()
    with pytest.raises(OSError, match="journal is closed"):
        journal.begin(STEP)


def test_release_ends_all_reservations_of_a_holder() -> None:
    entries = [reserved("a", 0), reserved("a", 1), reserved("b", 2), Released("a")]
    assert [each.holder for each in summarise(entries).reservations] == ["b"]


def test_second_engine_is_refused(tmp_path: Path) -> None:
    lock = NodeLock(tmp_path / "lock")
    with pytest.raises(EngineIsRunning, match=r"another MIG engine \(process \d+\)"):
        NodeLock(tmp_path / "lock")
    lock.release()
    NodeLock(tmp_path / "lock").release()
