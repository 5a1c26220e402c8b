"""The registration of a component: plain values, and references to code that is imported later."""

import re
from dataclasses import dataclass
from typing import Literal

FlagValue = bool | int | str | tuple[str, ...] | None
"""The value of a flag; None if it was not given."""
FlagType = Literal["switch", "number", "text", "texts"]
"""`switch` takes no value, `texts` may be repeated."""

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", re.ASCII)
_REFERENCE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """A flag of `kilonova up` for one component. Its builder finds the value under `name`."""

    name: str
    """Without dashes: `console-port`."""
    help: str
    type: FlagType = "switch"
    default: FlagValue = None
    """None if it has none that could be shown."""
    metavar: str = ""
    limits: tuple[int, int] | None = None
    """Lowest and highest number."""
    parse: str = ""
    """Reference to `(typed: str) -> str`, which validates a typed text and makes it independent of
    the working directory; `WrongUsage` for an invalid one."""
    complete: str = ""
    """Reference to `(incomplete: str) -> list[str]`, for shell completion."""

    def __post_init__(self) -> None:
        _require_name("flag", self.name)
        _require_references(f"flag {self.name}", self.parse, self.complete)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedPart:
    """The component inside of `kilonova up`: --only, --without and `--NAME/--no-NAME` select it."""

    help: str = ""
    """The help text of `--NAME/--no-NAME`; without one, there is no such flag."""
    build: str = ""
    """Reference to `(EmbeddedContext) -> EmbeddedComponent`; empty for a part of the embedded
    cluster itself."""
    required: bool = False
    """Always runs: it cannot be left out."""
    by_default: bool = True
    """Whether it runs unless it is left out; if not, `--NAME` or --only selects it."""
    requires: tuple[str, ...] = ()
    """Names of components without which it cannot run."""
    flags: tuple[Flag, ...] = ()

    def __post_init__(self) -> None:
        _require_references("the embedded part", self.build)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessPart:
    """The component on any cluster: `kilonova run PROCESS`, or a part of that process.

    A component whose process has another name than its own is added to the process of that
    component.
    """

    name: str
    assemble: str = ""
    """Reference to `async (Process) -> None`, which adds its runnables."""
    command: str = ""
    """Reference to the Typer function of `kilonova run`; without it, the command has the flags that
    all processes share, and calls `assemble`."""
    webhooks: str = ""
    """Reference to `() -> WebhookSet`: the webhooks of a part, which the process serves with its
    own."""
    lease: str = ""
    """The Lease of its leader election, for `kilonova doctor`; empty if it elects no leader."""
    deploy: str = ""
    """The folder with its manifests: ServiceAccount, permissions, Deployment."""

    def __post_init__(self) -> None:
        _require_name("process", self.name)
        _require_references(f"process {self.name}", self.assemble, self.command, self.webhooks)
        if not (self.assemble or self.command or self.webhooks):
            raise ValueError(f"process {self.name} has no `assemble`, `command` or `webhooks`")


@dataclass(frozen=True, slots=True)
class Command:
    """A command `kilonova NAME`."""

    name: str
    reference: str
    """Reference to a Typer function, or to a `typer.Typer` with subcommands."""

    def __post_init__(self) -> None:
        _require_name("command", self.name)
        _require_references(f"command {self.name}", self.reference)


@dataclass(frozen=True, slots=True)
class DocsPage:
    """A page of the documentation, as it is listed on its map (`docs/README.md`)."""

    path: str
    """Relative to the root of the repository."""
    title: str
    summary: str
    section: str = "Using it"
    """The heading of the map below which it is listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """What the command line, `kilonova up` and the console know of a component."""

    name: str
    """Lower case, words joined by dashes."""
    summary: str
    """One line: what it does."""
    order: int = 50
    """Components start, and are listed, in this order, and by name within it; parts of the embedded
    cluster are below 50."""
    kinds: tuple[str, ...] = ()
    """Names of the CRDs that it needs; of several components, each may name the same one."""
    definitions: str = ""
    """Reference to `() -> Sequence[JsonObject]`, the CRDs of `kinds` that are not in
    `kilonova.api.crds`."""
    embedded: EmbeddedPart | None = None
    process: ProcessPart | None = None
    commands: tuple[Command, ...] = ()
    console: str = ""
    """Reference to its contribution to the console."""
    checks: str = ""
    """Reference to its check of `kilonova doctor`."""
    pages: tuple[DocsPage, ...] = ()
    examples: tuple[str, ...] = ()
    """Folders or files of examples, relative to the root of the repository."""

    def __post_init__(self) -> None:
        _require_name("component", self.name)
        _require_references(self.name, self.definitions, self.console, self.checks)

    @property
    def status_key(self) -> str:
        """Its key in the JSON of `kilonova status`: the name in camel case."""
        first, *others = self.name.split("-")
        return first + "".join(each.capitalize() for each in others)


def _require_name(what: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{what} {name!r}: want lower-case words joined by dashes")


def _require_references(what: str, *references: str) -> None:
    for each in references:
        if each and not _REFERENCE.fullmatch(each):
            raise ValueError(f"{what}: {each!r} is not a reference: want package.module:attribute")
