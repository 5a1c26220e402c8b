"""Every link of the documentation leads somewhere, and every page is on its map."""

import posixpath
from pathlib import Path

import pytest

from tools.docs.external_requests import find_external_requests
from tools.docs.links import Link, list_anchors, list_links
from tools.docs.menu import PageNotInMenu, build_menu
from tools.docs.pages import BrokenLink, collect_pages

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    broken = [str(link) for link in list_links(page.read_text()) if not is_resolvable(page, link)]
    assert not broken, "mend or remove these links"


def test_the_map_lists_every_page() -> None:
    assert {"Benchmarks": [{"Benchmarks": "benchmarks.md"}]} in build_menu(
        collect_pages(ROOT).pages
    )


def test_a_page_that_the_map_does_not_list_is_an_error() -> None:
    pages = {"README.md": "## Start\n\n| [Tour](start.md) | all |\n", "start.md": "", "lost.md": ""}
    with pytest.raises(PageNotInMenu, match=r"does not list lost\.md: add a line"):
        build_menu(pages)
    del pages["lost.md"]
    assert build_menu(pages) == [{"Documentation": "README.md"}, {"Start": [{"Tour": "start.md"}]}]


def test_files_that_pages_link_to_are_shown_in_the_site(tmp_path: Path) -> None:
    create_repository(tmp_path, "[an example](../examples/pod.yaml) and [all](../examples)")
    site = collect_pages(tmp_path)
    assert "[an example](files/examples/pod.yaml.md)" in site.pages["guide.md"]
    assert "kind: Pod" in site.pages["files/examples/pod.yaml.md"]
    assert "- [pod.yaml](examples/pod.yaml.md)" in site.pages["files/examples.md"]
    assert "[the guide](guide.md#use)" in site.pages["start.md"]


@pytest.mark.parametrize("target", ["../examples/gone.yaml", "../../beyond.md"])
def test_a_link_that_leads_nowhere_stops_the_build(tmp_path: Path, target: str) -> None:
    create_repository(tmp_path, f"[an example]({target})")
    message = f"docs/guide.md: the target of link {target} does not exist"
    with pytest.raises(BrokenLink, match=message):
        collect_pages(tmp_path)


def test_links_in_code_are_no_links() -> None:
    text = "`[a](a.md)` [b](b.md)\n```\n[c](c.md)\n```\n![d](d.png) [e](https://e.example/)\n"
    assert [str(link) for link in list_links(text)] == ["b.md", "d.png"]


def test_anchors_are_those_of_github() -> None:
    text = "# `kilonova up`, and *more*\n## A – b\n## Tests\n## Tests\n```\n# no heading\n```\n"
    assert list_anchors(text) == {"kilonova-up-and-more", "a--b", "tests", "tests-1"}


def test_a_site_that_fetches_from_elsewhere_is_distinguished_from_one_that_links_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "good.html").write_text('<a href="https://e.example/">e</a><img src="a.png">')
    assert not list(find_external_requests(tmp_path))
    (tmp_path / "bad.html").write_text('<link rel="stylesheet" href="https://fonts.example/f">')
    (tmp_path / "bad.css").write_text("@font-face {src: url(//fonts.example/g)}")
    assert list(find_external_requests(tmp_path)) == [
        "bad.css: //fonts.example/g",
        "bad.html: https://fonts.example/f",
    ]


def is_resolvable(page: Path, link: Link) -> bool:
    """Whether there is such a file, and such a heading where it is a page."""
    target = page
    if link.path:
        target = ROOT / posixpath.normpath((page.parent / link.path).as_posix())
    if not target.exists():
        return False
    if not link.anchor:
        return True
    return target.suffix == ".md" and link.anchor in list_anchors(target.read_text())


def create_repository(folder: Path, guide: str) -> None:
    """A small one, with a guide that says this."""
    for name in ("docs", "examples"):
        (folder / name).mkdir()
    (folder / "README.md").write_text("[the guide](docs/guide.md#use)\n")
    (folder / "CHANGELOG.md").write_text("# Changes\n")
    (folder / "docs" / "README.md").write_text("# Map\n")
    (folder / "docs" / "guide.md").write_text(f"# Guide\n\n## Use\n\n{guide}\n")
    (folder / "examples" / "pod.yaml").write_text("kind: Pod\n")
