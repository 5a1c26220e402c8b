"""Removes from responses what may differ between any two servers: ids, times, counters.

Ids and resource versions are numbered by first occurrence, so that two responses agree only if the
same values are equal in both. Resource versions of lists and bookmarks have no number: other
writers change them. Times that are not near now come from the case, and are kept.
"""

import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.differential.case import Case
from tests.differential.case_runner import Observation

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


def normalise(case: Case, observations: Iterable[Observation], url: str) -> list[Observation]:
    """The observations of one case on one server, comparable with those of another."""
    walk = _Normaliser(case, url)
    return [walk.normalise_observation(observation) for observation in observations]


class _Normaliser:
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

    def normalise_observation(self, observation: Observation) -> Observation:
        if "out" in observation:
            return {
                "code": observation["code"],
                "out": self._normalise_output(observation["out"]),
                "err": self._normalise_output(observation["err"]),
            }
        return {key: self._normalise_value(key, value) for key, value in observation.items()}

    def _normalise_value(self, key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return self._normalise_object(value)
        if isinstance(value, list):
            if key.rpartition(".")[2] == "cells":  # as in a whole row, or as picked by a case
                return [self._normalise_cell(item) for item in value]
            items = [self._normalise_value(key, item) for item in value]
            return sorted(items, key=_get_owner) if key == "managedFields" else items
        if isinstance(value, str):
            if key == "resourceVersion" and value.isdigit() and value != "0":
                return self._versions.setdefault(value, f"<rv {len(self._versions) + 1}>")
            if key == "continue" and value:
                return "<continue>"
            if key == "warning":
                return _sort_warnings(self._normalise_text(value))
            return self._normalise_text(value)
        if key == "nodePort":
            return "<port>"
        return value

    def _normalise_object(self, value: dict[str, Any]) -> dict[str, Any]:
        if _is_list(value):
            value = {**value, "metadata": _drop_versions(value.get("metadata", {}))}
        elif value.get("type") == "BOOKMARK":
            marked = value["object"]
            marked = {**marked, "metadata": _drop_versions(marked["metadata"])}
            value = {**value, "object": marked}
        done = {
            self._normalise_text(key): self._normalise_value(key, item)
            for key, item in sorted(value.items())
        }
        if value.get("kind") == "Status":
            return _sort_causes(done)
        return _index_resources(done)

    def _normalise_cell(self, cell: Any) -> Any:
        if isinstance(cell, str):
            return (
                _AGE.sub("<age>", self._normalise_text(cell))
                if _AGE.fullmatch(cell)
                else self._normalise_text(cell)
            )
        return cell

    def _normalise_text(self, text: str) -> str:
        text = text.replace(self._url, "<server>").replace(self._url.partition("//")[2], "<server>")
        text = _UUID.sub(lambda match: self._replace_uid(match[0]), text)
        text = _TIME.sub(self._replace_time, text)
        text = _JWT.sub("<token>", text)
        text = _ALLOCATED_IP.sub("<ip>", text)
        text = _PEM.sub("<pem>", text)
        text = _COUNTER.sub(r"\1<rv>", text)
        text = _VERSION.sub(r"\1<rv>", text)
        text = _PATCHED.sub("Invalid value: <object>: ", text)  # its keys have no order
        text = _CREDENTIAL.sub("<credential>", text)
        text = _TOKEN_VOLUME.sub(r"\1<random>", text)
        for prefix, pattern in zip(self._prefixes, self._generated, strict=True):
            text = pattern.sub(f"{prefix}<random>", text)
        return text

    def _normalise_output(self, text: str) -> str:
        text = _PRINTED_TIMES.sub("<time>", _SCRATCH.sub(r"\1", self._normalise_text(text)))
        return _SPACES.sub("  ", _AGE.sub("<age>", text))

    def _replace_uid(self, uid: str) -> str:
        return self._uids.setdefault(uid, f"<uid {len(self._uids) + 1}>")

    def _replace_time(self, match: re.Match[str]) -> str:
        when = datetime.fromisoformat(match[0])
        if abs(when - self._now) > timedelta(days=2):
            return match[0]
        return "<microtime>" if match[1] else "<time>"


def _get_owner(entry: dict[str, Any]) -> list[str]:
    """Owners are in the order of their times, which a new second can change."""
    return [entry.get(name, "") for name in ("operation", "manager", "apiVersion", "subresource")]


def _is_list(value: dict[str, Any]) -> bool:
    return "rows" in value or ("items" in value and str(value.get("kind", "")).endswith("List"))


def _sort_causes(status: dict[str, Any]) -> dict[str, Any]:
    """Kubernetes iterates maps, so causes are in any order, and some occur twice."""
    status["message"] = _sort_strict_errors(status.get("message", ""))
    details = status.get("details") or {}
    unique = {json.dumps(cause, sort_keys=True): cause for cause in details.get("causes") or []}
    if not unique:
        return status
    if len(unique) > 1:
        status["message"] = status["message"].partition(" is invalid: [")[0]
    causes = [unique[text] for text in sorted(unique)]
    return {**status, "details": {**details, "causes": causes}}


def _index_resources(listing: dict[str, Any]) -> dict[str, Any]:
    """The order of resources in discovery has no meaning."""
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


def _sort_strict_errors(text: str) -> str:
    head, mark, problems = text.partition("strict decoding error: ")
    return head + mark + ", ".join(sorted(problems.split(", ")))


def _sort_warnings(text: str) -> str:
    return ", ".join(sorted(text.split(", ")))


def _drop_versions(metadata: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in metadata.items() if (name, value) != ("continue", "")}
    if metadata.get("resourceVersion", "").isdigit():
        kept["resourceVersion"] = "<list rv>"
    return kept
