"""`make check` detects a stale page of the console."""

from pathlib import Path

import pytest

from tools.frontend.check import find_differences


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A freshly built page and the committed one, equal."""
    fresh, built = tmp_path / "fresh", tmp_path / "built"
    for folder in (fresh, built):
        (folder / "assets").mkdir(parents=True)
        (folder / "index.html").write_text("<div id=app>")
        (folder / "assets" / "console.js").write_text("render()")
    return fresh, built


def test_a_fresh_page_has_no_differences(folders: tuple[Path, Path]) -> None:
    assert find_differences(*folders) == []


def test_a_changed_byte_is_found(folders: tuple[Path, Path]) -> None:
    fresh, built = folders
    (built / "assets" / "console.js").write_text("render[]")
    assert find_differences(fresh, built) == ["assets/console.js"]


def test_files_in_only_one_directory_are_found(folders: tuple[Path, Path]) -> None:
    fresh, built = folders
    (fresh / "favicon.svg").touch()
    (built / "assets" / "old.js").touch()
    assert find_differences(fresh, built) == ["assets/old.js", "favicon.svg"]
