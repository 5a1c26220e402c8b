"""The pages of the site, from what lies in the repository.

`docs/` is taken as it is, its README being the front page; the README and the changelog of the
repository become pages too. A file elsewhere that a page links to (an example, a manifest, a
test) becomes a page that shows it, a folder one that lists what is in it: so no link leads out
of the site, and one that leads nowhere is an error.
"""

import os
import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.docs.links import Link, relinked

_OWN_PAGES: Mapping[str, str] = {"README.md": "start.md", "CHANGELOG.md": "changelog.md"}
_DOCS = "docs/"
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".sh": "sh", ".json": "json"}


class BrokenLink(Exception):
    """A link that leads to nothing in the repository."""

    def __init__(self, page: str, link: Link) -> None:
        super().__init__(f"{page}: the link to {link} leads to nothing; mend or remove it")


@dataclass(slots=True)
class Site:
    """Files of the site by their place in it, and what of the repository is still to be shown."""

    root: Path
    pages: dict[str, str] = field(default_factory=dict[str, str])
    pictures: dict[str, Path] = field(default_factory=dict[str, Path])
    _shown: list[str] = field(default_factory=list[str])

    def place(self, path: str) -> str:
        """Where a file or folder of the repository is in the site; it is shown from now on."""
        if path in _OWN_PAGES:
            return _OWN_PAGES[path]
        if f"{path}/".startswith(_DOCS):
            return path.removeprefix(_DOCS) if (self.root / path).is_file() else "README.md"
        if path not in self._shown:
            self._shown.append(path)
        return f"files/{path}.md"

    def write(self, folder: Path) -> None:
        """Put everything below a folder."""
        for place, text in self.pages.items():
            file = folder / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        for place, picture in self.pictures.items():
            file = folder / place
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(picture.read_bytes())

    def add_written_pages(self) -> None:
        """Those that people wrote, with their links turned to where things are in the site."""
        written = [*_OWN_PAGES, *(_relative(self.root, self.root / "docs"))]
        for path in written:
            if not path.endswith(".md"):
                self.pictures[self.place(path)] = self.root / path
                continue
            text = (self.root / path).read_text()
            self.pages[self.place(path)] = relinked(text, self._turned(path))

    def add_shown_files(self) -> None:
        """Pages of the files and folders that others link to; those of a folder come with it."""
        for path in self._shown:
            shown = self.root / path
            place = f"files/{path}.md"
            if shown.is_dir():
                items = [
                    f"- [{each.removeprefix(f'{path}/')}]({_from(place, self.place(each))})\n"
                    for each in _relative(self.root, shown)
                ]
                self.pages[place] = f"# {path}\n\n" + "".join(items)
            else:
                language = _LANGUAGES.get(shown.suffix, "text")
                fence = "`" * 6
                self.pages[place] = f"# {path}\n\n{fence}{language}\n{shown.read_text()}\n{fence}\n"

    def _turned(self, page: str) -> Callable[[Link], Link]:
        def turn(link: Link) -> Link:
            if not link.path:
                return link
            target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link.path))
            if target.startswith("..") or not (self.root / target).exists():
                raise BrokenLink(page, link)
            return Link(_from(self.place(page), self.place(target)), link.anchor)

        return turn


def gather(root: Path) -> Site:
    """All that the site is made of."""
    site = Site(root)
    site.add_written_pages()
    site.add_shown_files()
    return site


def _from(page: str, place: str) -> str:
    return posixpath.relpath(place, posixpath.dirname(page) or ".")


def _relative(root: Path, folder: Path) -> list[str]:
    """The files below a folder, as paths from the root; nothing hidden or compiled."""
    return [
        Path(parent, name).relative_to(root).as_posix()
        for parent, folders, names in sorted(os.walk(folder))
        if not folders.sort() and "__pycache__" not in parent and "/." not in parent
        for name in sorted(names)
        if not name.startswith(".")
    ]
