"""Takes out of an answer what may differ between any two servers: ids, times, counters.

Ids and resource versions become numbered by first sight, so that two answers agree only if
the same things are equal in both. Resource versions of lists and bookmarks carry no number:
other writers move them. Times that are not near now were given by the case, and stay.
"""

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.differential.case import Case
from tests.differential.player import Observation

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_AGE = re.compile(r"(?<![\w.-])(\d+[smhd]){1,2}(?![\w.-])")
_JWT = re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]+")
_ALLOCATED_IP = re.compile(r"(?<![\d.])10\.\d+\.\d+\.\d+(?![\d.])")
_PEM = re.compile(r"-----BEGIN [^-]+-----[^-]+-----END [^-]+-----\n?")
_COUNTER = re.compile(
    r"(current: |in record \(|too old resource version: \d+ \(|resource version: )\d+"
)
_PATCHED = re.compile(r'Invalid value: "\{.*\}": ')
_GENERATED = re.compile(r"""generateName["']?:\s*["']?([\w.-]+)""")
_CREDENTIAL = re.compile(r"X509SHA256=\w+")
_PRINTED_TIMES = re.compile(
    r"\w{3}, \d\d \w{3} \d{4} [\d:]{8} [+-]\d{4}|\d{4}-\d\d-\d\d [\d:]{8}\.\d+ [+-]\d{4}"
)
_SCRATCH = re.compile(r"\S*/(LIVE|MERGED)-\d+")
_TOKEN_VOLUME = re.compile(r"(kube-api-access-)[a-z0-9]{5}\b")
_SPACES = re.compile(r"(?<=\S) {2,}")
_VERSION = re.compile(r"""(resourceVersion\\*"?: ?\\*")\d+""")


def normalised(case: Case, observations: Iterable[Observation], url: str) -> list[Observation]:
    """The observations of one case on one server, comparable with those of another."""
    walk = _Walk(case, url)
    return [walk.observation(observation) for observation in observations]


class _Walk:
    def __init__(self, case: Case, url: str) -> None:
        self._url = url
        self._uids: dict[str, str] = {}
        self._versions: dict[str, str] = {}
        prefixes = {prefix for step in case.steps for prefix in _GENERATED.findall(repr(step))}
        self._generated = [
            re.compile(rf"\b{re.escape(prefix)}[a-z0-9]{{5}}\b") for prefix in prefixes
        ]
        self._prefixes = list(prefixes)
        self._now = datetime.now(UTC)

    def observation(self, observation: Observation) -> Observation:
        if "out" in observation:
            return {
                "code": observation["code"],
                "out": self._printed(observation["out"]),
                "err": self._printed(observation["err"]),
            }
        return {key: self._value(key, value) for key, value in observation.items()}

    def _value(self, key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            if key.rpartition(".")[2] == "cells":  # as a whole row has it, or as a case picks it
                return [self._cell(item) for item in value]
            items = [self._value(key, item) for item in value]
            return sorted(items, key=_owner) if key == "managedFields" else items
        if isinstance(value, str):
            if key == "resourceVersion" and value.isdigit() and value != "0":
                return self._versions.setdefault(value, f"<rv {len(self._versions) + 1}>")
            if key == "continue" and value:
                return "<continue>"
            if key == "warning":
                return _warnings_in_order(self._text(value))
            return self._text(value)
        if key == "nodePort":
            return "<port>"
        return value

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        if _is_list(value):
            value = {**value, "metadata": _unversioned(value.get("metadata", {}))}
        elif value.get("type") == "BOOKMARK":
            marked = value["object"]
            marked = {**marked, "metadata": _unversioned(marked["metadata"])}
            value = {**value, "object": marked}
        done = {self._text(key): self._value(key, item) for key, item in sorted(value.items())}
        if value.get("kind") == "Status":
            return _with_problems_in_order(done)
        return _with_resources_by_name(done)

    def _cell(self, cell: Any) -> Any:
        if isinstance(cell, str):
            return _AGE.sub("<age>", self._text(cell)) if _AGE.fullmatch(cell) else self._text(cell)
        return cell

    def _text(self, text: str) -> str:
        text = text.replace(self._url, "<server>").replace(self._url.partition("//")[2], "<server>")
        text = _UUID.sub(lambda match: self._uid(match[0]), text)
        text = _TIME.sub(self._time, text)
        text = _JWT.sub("<token>", text)
        text = _ALLOCATED_IP.sub("<ip>", text)
        text = _PEM.sub("<pem>", text)
        text = _COUNTER.sub(r"\1<rv>", text)
        text = _VERSION.sub(r"\1<rv>", text)
        text = _PATCHED.sub("Invalid value: <object>: ", text)  # its keys are in any order
        text = _CREDENTIAL.sub("<credential>", text)
        text = _TOKEN_VOLUME.sub(r"\1<random>", text)
        for prefix, pattern in zip(self._prefixes, self._generated, strict=True):
            text = pattern.sub(f"{prefix}<random>", text)
        return text

    def _printed(self, text: str) -> str:
        text = _PRINTED_TIMES.sub("<time>", _SCRATCH.sub(r"\1", self._text(text)))
        return _SPACES.sub("  ", _AGE.sub("<age>", text))

    def _uid(self, uid: str) -> str:
        return self._uids.setdefault(uid, f"<uid {len(self._uids) + 1}>")

    def _time(self, match: re.Match[str]) -> str:
        when = datetime.fromisoformat(match[0])
        if abs(when - self._now) > timedelta(days=2):
            return match[0]
        return "<microtime>" if match[1] else "<time>"


def _owner(entry: dict[str, Any]) -> list[str]:
    """Owners come in the order of their times, so that a new second changes it."""
    return [entry.get(name, "") for name in ("operation", "manager", "apiVersion", "subresource")]


def _is_list(value: dict[str, Any]) -> bool:
    return "rows" in value or ("items" in value and str(value.get("kind", "")).endswith("List"))


def _with_problems_in_order(status: dict[str, Any]) -> dict[str, Any]:
    """Kubernetes walks maps, so that several problems come in any order, and some twice."""
    status["message"] = _strict_in_order(status.get("message", ""))
    details = status.get("details") or {}
    unique = {json.dumps(cause, sort_keys=True): cause for cause in details.get("causes") or []}
    if not unique:
        return status
    if len(unique) > 1:
        status["message"] = status["message"].partition(" is invalid: [")[0]
    causes = [unique[text] for text in sorted(unique)]
    return {**status, "details": {**details, "causes": causes}}


def _with_resources_by_name(listing: dict[str, Any]) -> dict[str, Any]:
    """Discovery lists resources in an order that says nothing."""
    for part, key in (
        ("resources", "name"),
        ("resources", "resource"),
        ("subresources", "subresource"),
    ):
        entries = listing.get(part)
        if not isinstance(entries, list) or not entries:
            continue
        if all(isinstance(entry, dict) and key in entry for entry in entries):
            listing[part] = {entry[key]: entry for entry in entries}
    return listing


def _strict_in_order(text: str) -> str:
    head, mark, problems = text.partition("strict decoding error: ")
    return head + mark + ", ".join(sorted(problems.split(", ")))


def _warnings_in_order(text: str) -> str:
    return ", ".join(sorted(text.split(", ")))


def _unversioned(metadata: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in metadata.items() if (name, value) != ("continue", "")}
    if metadata.get("resourceVersion", "").isdigit():
        kept["resourceVersion"] = "<list rv>"
    return kept
