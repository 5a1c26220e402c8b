"""A part of the cache is complete or absent, and is made once."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tools.realparts.listing import format_json, format_table, list_parts
from tools.realparts.part import CachedPart, PartUnavailable
from tools.realparts.progress import Progress


@dataclass(frozen=True)
class FakeSource:
    """Writes its files, of which some fail."""

    files: tuple[str, ...] = ("server", "client")
    pins: bytes = b"lock"
    failing: str = ""
    version: str | None = None

    def make(self, folder: Path, progress: Progress) -> str | None:
        for name in self.files:
            if name == self.failing:
                raise PartUnavailable("no compiler")
            if not (folder / name).exists():
                progress.report(f"building {name}")
                (folder / name).write_text(name)
        return self.version


@pytest.fixture
def part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CachedPart:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return CachedPart("toy", "v1", FakeSource(), variable="TOY_PART")


def test_part_is_made_once(part: CachedPart, capsys: pytest.CaptureFixture[str]) -> None:
    assert part.find() is None
    assert part.get() == part.find() == part.folder
    assert part.get() == part.folder
    assert capsys.readouterr().err.splitlines() == ["toy: building server", "toy: building client"]


def test_interrupted_part_is_absent_and_continued(
    part: CachedPart, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(PartUnavailable, match="no compiler"):
        replace(part, source=FakeSource(failing="client")).get()
    assert part.find() is None
    part.get()
    assert capsys.readouterr().err.splitlines() == ["toy: building server", "toy: building client"]


def test_changed_pins_are_another_part(part: CachedPart) -> None:
    part.get()
    assert replace(part, source=FakeSource(pins=b"other")).find() is None


def test_link_leads_to_the_part_that_was_got_last(part: CachedPart) -> None:
    link = part.folder.with_name("current")
    for pins in (b"new", b"lock"):
        changed = replace(part, source=FakeSource(pins=pins))
        changed.get()
        assert link.resolve() == changed.folder
    assert (link / "server").is_file()


def test_source_that_leaves_out_a_file_is_an_error(part: CachedPart) -> None:
    @dataclass(frozen=True)
    class Forgetful(FakeSource):
        def make(self, folder: Path, progress: Progress) -> str | None:
            (folder / "server").touch()
            return None

    with pytest.raises(PartUnavailable, match="made without client"):
        replace(part, source=Forgetful()).get()


def test_complete_folder_of_the_variable_is_used(
    part: CachedPart,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TOY_PART", str(tmp_path))
    (tmp_path / "server").touch()
    assert part.get() == part.folder
    assert f"TOY_PART={tmp_path} has no client: not used" in capsys.readouterr().err
    (tmp_path / "client").touch()
    assert part.get() == tmp_path


def test_list_shows_state_version_and_size(part: CachedPart) -> None:
    missing = replace(part, name="other")
    replace(part, source=FakeSource(version="1.2.3-4")).get()
    rows = list_parts([part, missing])
    assert [(row.name, row.version, row.state) for row in rows] == [
        ("toy", "1.2.3-4", "ready"),
        ("other", "v1", "missing"),
    ]
    assert rows[0].bytes is not None
    assert rows[0].bytes > len("serverclient")
    assert format_table(rows).splitlines()[2].split() == ["other", "v1", "missing", "-", "-"]
    assert json.loads(format_json(rows))[0]["path"] == str(part.folder)
