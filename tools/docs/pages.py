"""The pages of the site, from the repository.

`docs/` is taken unchanged, with its README as the front page; the README and the changelog of the
repository become pages too. Another file that a page links to (an example, a manifest, a test)
becomes a page that shows it, a directory a page that lists its files: so no link leaves the site,
and a broken link is an error.
"""

import os
import posixpath
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kilonova.component import Component
from tools.docs.component_pages import MAP, list_component_pages
from tools.docs.links import Link, rewrite_links

_OWN_PAGES: Mapping[str, str] = {"README.md": "start.md", "CHANGELOG.md": "changelog.md"}
_DOCS = "docs/"
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".sh": "sh", ".json": "json"}


class BrokenLink(Exception):
    """A link to a path that does not exist in the repository."""

    def __init__(self, page: str, link: Link) -> None:
        super().__init__(
            f"{page}: the target of link {link} does not exist; fix or remove the link"
        )


@dataclass(slots=True)
class Site:
    """Files of the site by output path, and files of the repository that are still to be shown."""

    root: Path
    components: Sequence[Component] = ()
    """Components whose pages are listed on the front page."""
    pages: dict[str, str] = field(default_factory=dict[str, str])
    pictures: dict[str, Path] = field(default_factory=dict[str, Path])
    _shown_files: list[str] = field(default_factory=list[str])

    def get_output_path(self, path: str) -> str:
        """The output path of a file or directory of the repository; it is added to the site."""
        if path in _OWN_PAGES:
            return _OWN_PAGES[path]
        if f"{path}/".startswith(_DOCS):
            return path.removeprefix(_DOCS) if (self.root / path).is_file() else "README.md"
        if path not in self._shown_files:
            self._shown_files.append(path)
        return f"files/{path}.md"

    def write(self, folder: Path) -> None:
        """Write everything below a directory."""
        for place, text in self.pages.items():
            file = folder / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        for place, picture in self.pictures.items():
            file = folder / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(picture.read_bytes())

    def add_written_pages(self) -> None:
        """Add the documentation pages, with rewritten links."""
        written = [*_OWN_PAGES, *(_list_relative_paths(self.root, self.root / "docs"))]
        for path in written:
            if not path.endswith(".md"):
                self.pictures[self.get_output_path(path)] = self.root / path
                continue
            text = (self.root / path).read_text()
            if path == MAP:
                text = list_component_pages(text, self.components)
            self.pages[self.get_output_path(path)] = rewrite_links(
                text, self._rewrite_page_links(path)
            )

    def add_shown_files(self) -> None:
        """Add pages for linked files and directories; files of a directory are added with it."""
        for path in self._shown_files:
            shown = self.root / path
            place = f"files/{path}.md"
            if shown.is_dir():
                items = [
                    f"- [{each.removeprefix(f'{path}/')}]"
                    f"({_relative_to_page(place, self.get_output_path(each))})\n"
                    for each in _list_relative_paths(self.root, shown)
                ]
                self.pages[place] = f"# {path}\n\n" + "".join(items)
            else:
                language = _LANGUAGES.get(shown.suffix, "text")
                fence = "`" * 6
                self.pages[place] = f"# {path}\n\n{fence}{language}\n{shown.read_text()}\n{fence}\n"

    def _rewrite_page_links(self, page: str) -> Callable[[Link], Link]:
        def rewrite_link(link: Link) -> Link:
            if not link.path:
                return link
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link.path))
            if target.startswith("..") or not (self.root / target).exists():
                raise BrokenLink(page, link)
            return Link(
                _relative_to_page(self.get_output_path(page), self.get_output_path(target)),
                link.anchor,
            )

        return rewrite_link


def collect_pages(root: Path, components: Sequence[Component] = ()) -> Site:
    """All pages of the site; those of these components are on its front page."""
    site = Site(root, components)
    site.add_written_pages()
    site.add_shown_files()
    return site


def _relative_to_page(page: str, place: str) -> str:
    return posixpath.relpath(place, posixpath.dirname(page) or ".")


def _list_relative_paths(root: Path, folder: Path) -> list[str]:
    """The files below a directory, relative to the root; without hidden and compiled ones."""
    return [
        Path(parent, name).relative_to(root).as_posix()
        for parent, folders, names in sorted(os.walk(folder))
        if not folders.sort() and "__pycache__" not in parent and "/." not in parent
        for name in sorted(names)
        if not name.startswith(".")
    ]
