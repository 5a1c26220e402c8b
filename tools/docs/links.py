"""Links and headings of a Markdown text, as GitHub and the built site interpret them."""

import re
from collections.abc import Callable
from dataclasses import dataclass

_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_LINK = re.compile(r"(?P<before>\]\(|\b(?:src|srcset|href)=\")(?P<target>[^()\s\"]+)")
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$")
_MARKUP = re.compile(r"!?\[([^]]*)\]\([^)]*\)|[`*]")
_NON_ANCHOR_CHARACTERS = re.compile(r"[^\w\- ]")
_EXTERNAL = re.compile(r"[a-z][a-z+.-]*:|//")


@dataclass(frozen=True, slots=True)
class Link:
    """A link target: a path as written ("" is the page itself), and an anchor or ""."""

    path: str
    anchor: str

    @classmethod
    def parse(cls, target: str) -> "Link":
        path, _, anchor = target.partition("#")
        return cls(path, anchor)

    def __str__(self) -> str:
        return f"{self.path}#{self.anchor}" if self.anchor else self.path


def list_links(text: str) -> list[Link]:
    """All links of a text except external ones, in order."""
    found: list[Link] = []

    def record(link: Link) -> Link:
        found.append(link)
        return link

    rewrite_links(text, record)
    return found


def rewrite_links(text: str, change: Callable[[Link], Link]) -> str:
    """The text with every internal link replaced; code is left unchanged."""

    def replace(match: re.Match[str]) -> str:
        target = match["target"]
        if _EXTERNAL.match(target):
            return match[0]
        return match["before"] + str(change(Link.parse(target)))

    def rewrite_outside_code(line: str) -> str:
        pieces: list[str] = []
        end = 0
        for code in _CODE.finditer(line):
            pieces += [_LINK.sub(replace, line[end : code.start()]), code[0]]
            end = code.end()
        return "".join(pieces) + _LINK.sub(replace, line[end:])

    return "".join(
        line if fenced else rewrite_outside_code(line) for line, fenced in _iterate_lines(text)
    )


def list_anchors(text: str) -> set[str]:
    """The anchors of all headings; repeated ones are numbered."""
    found: set[str] = set()
    for line, fenced in _iterate_lines(text):
        heading = None if fenced else _HEADING.match(line.rstrip("\n"))
        if heading is None:
            continue
        plain = _to_anchor(heading[1])
        anchor, number = plain, 0
        while anchor in found:
            number += 1
            anchor = f"{plain}-{number}"
        found.add(anchor)
    return found


def _to_anchor(heading: str) -> str:
    words = _MARKUP.sub(lambda match: match[1] or "", heading)
    return _NON_ANCHOR_CHARACTERS.sub("", words.lower()).replace(" ", "-")


def _iterate_lines(text: str) -> list[tuple[str, bool]]:
    """Each line, and whether it belongs to a code block."""
    marked: list[tuple[str, bool]] = []
    fence = ""
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if fence:
            marked.append((line, True))
            if mark and mark[1].startswith(fence):
                fence = ""
        else:
            fence = mark[1] if mark else ""
            marked.append((line, bool(mark)))
    return marked
