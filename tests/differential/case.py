"""Cases as data: what to ask of both servers, read from the YAML files in `cases/`.

A case is one document: a name and steps. A step is one of

    do: POST /api/v1/namespaces/<ns>/configmaps?dryRun=All
    body: {…}              sent as JSON; `text:` is sent as it stands
    type: merge            a short name of TYPES, or a content type
    headers: {accept: …}
    until: 404             ask again until this status (or {json path: value}) comes
    certificate: false     come without the administrator's certificate
    pick: [kind, …]        compare these paths of the body only
    save: {rv: metadata.resourceVersion}

    watch: /api/v1/…       open a stream; `events: N` reads that many, `as: w` names it
    read: w                read on from a named stream, `events: N`

    kubectl: get pods      with `stdin`, `files: {name: text}`, `env`

`<ns>` is the case's own namespace, `<rv>` what was saved under that name, `<x*9>` nine x.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

CASES = Path(__file__).parent / "cases"

CONTENT_TYPES = {
    "json": "application/json",
    "yaml": "application/yaml",
    "json-patch": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True)
class Step:
    """One request, stream or command, by the field that is not empty."""

    do: str = ""
    watch: str = ""
    read: str = ""
    kubectl: str = ""
    body: Any = None
    text: str = ""
    type: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    certificate: bool = True
    until: Any = None
    pick: tuple[str, ...] = ()
    save: Mapping[str, str] = field(default_factory=dict[str, str])
    events: int | None = None
    as_: str = ""
    stdin: str = ""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    env: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def title(self) -> str:
        return (
            self.do
            or (f"WATCH {self.watch}" if self.watch else "")
            or (f"kubectl {self.kubectl}" if self.kubectl else f"read {self.read}")
        )

    def substitute(self, values: Mapping[str, str]) -> "Step":
        """With the placeholders replaced."""
        return Step(**{name: _substitute(value, values) for name, value in vars(self).items()})


@dataclass(frozen=True)
class Case:
    """Steps that are run in a fresh namespace."""

    name: str
    topic: str
    steps: tuple[Step, ...]

    @property
    def namespace(self) -> str:
        words = re.sub(r"[^a-z0-9]+", "-", f"{self.topic}-{self.name}".lower())
        return words[:50].strip("-")

    def __str__(self) -> str:
        return f"{self.topic}: {self.name}"


def load_cases(folder: Path = CASES) -> list[Case]:
    """All cases, in the order of files and lines."""
    cases: list[Case] = []
    for path in sorted(folder.glob("*.yaml")):
        for entry in yaml.load_all(path.read_bytes(), _Loader):
            steps = tuple(_build_step(step) for step in entry["steps"])
            cases.append(Case(entry["name"], path.stem, steps))
    names = [case.namespace for case in cases]
    repeated = {name for name in names if names.count(name) > 1}
    assert not repeated, f"two cases share a namespace: {repeated}"
    return cases


class _Loader(yaml.CSafeLoader):
    """YAML whose timestamps stay text, as in JSON."""


_Loader.yaml_implicit_resolvers = {
    first: [entry for entry in entries if entry[0] != "tag:yaml.org,2002:timestamp"]
    for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _build_step(fields: dict[str, Any]) -> Step:
    renamed = {("as_" if name == "as" else name): value for name, value in fields.items()}
    if "pick" in renamed:
        renamed["pick"] = tuple(renamed["pick"])
    return Step(**renamed)


def _substitute(value: Any, values: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        if "<" not in value:
            return value
        for name, text in values.items():
            value = value.replace(f"<{name}>", text)
        return re.sub(r"<(.)\*(\d+)>", lambda match: match[1] * int(match[2]), value)
    if isinstance(value, Mapping):
        return {_substitute(key, values): _substitute(item, values) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_substitute(item, values) for item in value)
    return value
