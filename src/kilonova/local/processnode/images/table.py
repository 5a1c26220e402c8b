"""Finds the entry of an image, and the command line that a container runs. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

import msgspec

from kilonova.api.json import JsonObject

_DEFAULT_REGISTRY = "docker.io"
_DEFAULT_NAMESPACE = "library"


class ImageEntry(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True
):
    """How an image is run here. `image` may have a tag, and wildcards as in file names."""

    image: str
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: dict[str, str] = {}
    working_dir: str = ""
    path: tuple[str, ...] = ()
    programs: dict[str, str] = {}
    folders: tuple[str, ...] = ()
    install: str = ""

    def matches(self, image: str) -> bool:
        """Whether the entry is for an image."""
        repository, tag = split_image(image)
        wanted, wanted_tag = split_image(self.image)
        return fnmatchcase(repository, wanted) and fnmatchcase(tag, wanted_tag or "*")


@dataclass(frozen=True, slots=True)
class ResolvedCommand:
    """The command line of a container, and what its image adds to its environment."""

    line: tuple[str, ...]
    env: dict[str, str]
    path: tuple[str, ...]
    working_dir: str
    programs: dict[str, str]
    """What this machine calls otherwise, by the image's name for it."""
    folders: tuple[str, ...] = ()
    """Of this machine, which the programs need: users of containers can read them."""
    install: str = ""
    """How this machine gets the programs of the image."""

    def get_search_path(self, path: str) -> str:
        """A PATH with the folders of the image first."""
        return ":".join((*self.path, path))

    def explain_missing(self) -> str:
        """What is said where its program is not found."""
        fix = f": {self.install}" if self.install else ""
        return f"{self.line[0]}, which is not found on this machine{fix}"


class ImageTable:
    """The entries in order of precedence."""

    def __init__(self, entries: Sequence[ImageEntry]) -> None:
        self._entries = tuple(entries)
        self._find = lru_cache(maxsize=1024)(self._find_entry)

    @property
    def entries(self) -> tuple[ImageEntry, ...]:
        """All entries."""
        return self._entries

    def resolve(
        self, image: str, command: Sequence[str], args: Sequence[str]
    ) -> ResolvedCommand | None:
        """What a container runs; None if neither it nor the table says."""
        entry = self._find(image)
        if entry is None:
            return ResolvedCommand((*command, *args), {}, (), "", {}) if command else None
        # As Kubernetes does: cmd is left out if the container has a command or arguments.
        line = (*(command or entry.entrypoint), *(args or (() if command else entry.cmd)))
        if not line:
            return None
        program = entry.programs.get(line[0], line[0])
        return ResolvedCommand(
            (program, *line[1:]),
            entry.env,
            entry.path,
            entry.working_dir,
            entry.programs,
            entry.folders,
            entry.install,
        )

    def has_command(self, container: JsonObject) -> bool:
        """Whether the command of a container is known; its program need not exist here."""
        image = container.get("image") or ""
        command, args = container.get("command") or (), container.get("args") or ()
        return self.resolve(image, command, args) is not None

    def _find_entry(self, image: str) -> ImageEntry | None:
        return next((each for each in self._entries if each.matches(image)), None)


def split_image(image: str) -> tuple[str, str]:
    """The repository with its registry, and the tag: `python:3.13` is
    `docker.io/library/python` and `3.13`. A digest is ignored, the tag may be empty.
    """
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    last, _, tag = last.partition(":")
    repository = f"{head}{slash}{last}"
    first = repository.partition("/")[0]
    if "/" not in repository and first != "*":
        return f"{_DEFAULT_REGISTRY}/{_DEFAULT_NAMESPACE}/{repository}", tag
    has_registry = any(mark in first for mark in ".:*") or first == "localhost"
    return (repository if has_registry else f"{_DEFAULT_REGISTRY}/{repository}"), tag
