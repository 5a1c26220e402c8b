"""What kube-scheduler sends, and how it wants its answers.

The messages are Go structs without names for JSON: they are written capitalised, and read in any
case. Pods and nodes inside of them are written as in the Kubernetes API. Nodes are passed back as
the very bytes that came.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from msgspec import Raw

from kilonova.api.meta import Metadata
from kilonova.scheduler.objects import Pod, PodSpec

T = TypeVar("T")

MOST = 10
"""The best score."""


class Malformed(ValueError):
    """A body that is no message of the protocol."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """A pod and the nodes to judge, by name; `objects` are the nodes where they were sent whole."""

    pod: Pod
    names: tuple[str, ...]
    objects: tuple[Raw, ...] | None = None


@dataclass(frozen=True, slots=True)
class Victims:
    """Pods of one node that would have to go, and how many budgets that violates."""

    uids: tuple[str, ...]
    violations: int = 0


@dataclass(frozen=True, slots=True)
class Preemption:
    """A pod, and whom kube-scheduler would push out for it, by node."""

    pod: Pod
    victims: Mapping[str, Victims]


@dataclass(frozen=True, slots=True)
class BindingAsked:
    """A pod, and the node that was chosen for it."""

    namespace: str
    name: str
    uid: str
    node: str

    @property
    def pod(self) -> str:
        return f"{self.namespace}/{self.name}"


def read_candidates(body: bytes) -> Candidates:
    """The arguments of `filter` and `prioritize`."""
    fields = _fields(body, "the body")
    pod = _pod(fields)
    names = _optional(fields, "NodeNames", tuple[str, ...])
    if names is not None:
        return Candidates(pod, names)
    nodes = _optional(fields, "Nodes", _NodeList)
    if nodes is None:
        raise Malformed("neither NodeNames nor Nodes: send the nodes to judge")
    objects = tuple(nodes.items or ())
    named = (_decoded(raw, f"Nodes.items[{at}]", _Named) for at, raw in enumerate(objects))
    return Candidates(pod, tuple(each.metadata.name for each in named), objects)


def read_preemption(body: bytes) -> Preemption:
    """The arguments of `preempt`, with whole victims or only their ids."""
    fields = _fields(body, "the body")
    pod = _pod(fields)
    victims: dict[str, Victims] = {}
    for name, pods in (("NodeNameToMetaVictims", _meta_uids), ("NodeNameToVictims", _uids)):
        by_node = _optional(fields, name, dict[str, Raw])
        for node, raw in (by_node or {}).items():
            inside = _fields(raw, f"{name}[{node}]")
            violations = _optional(inside, "NumPDBViolations", int) or 0
            victims[node] = Victims(tuple(pods(inside)), violations)
        if by_node is not None:
            return Preemption(pod, victims)
    raise Malformed("neither NodeNameToMetaVictims nor NodeNameToVictims")


def read_binding(body: bytes) -> BindingAsked:
    """The arguments of `bind`."""
    fields = _fields(body, "the body")
    texts = {
        name: _optional(fields, name, str) or ""
        for name in ("PodNamespace", "PodName", "PodUID", "Node")
    }
    missing = [name for name in ("PodNamespace", "PodName", "Node") if not texts[name]]
    if missing:
        raise Malformed(f"{', '.join(missing)}: missing or empty")
    return BindingAsked(texts["PodNamespace"], texts["PodName"], texts["PodUID"], texts["Node"])


def filter_result(
    asked: Candidates,
    passed: Iterable[str] = (),
    failed: Mapping[str, str] | None = None,
    unresolvable: Mapping[str, str] | None = None,
) -> bytes:
    """The answer to `filter`, in the form in which the nodes were sent."""
    names: list[str] | None = list(passed)
    nodes = None
    if asked.objects is not None:
        wanted = set(names)
        whole = zip(asked.names, asked.objects, strict=True)
        nodes, names = {"items": [raw for name, raw in whole if name in wanted]}, None
    return msgspec.json.encode(
        {
            "Nodes": nodes,
            "NodeNames": names,
            "FailedNodes": failed or {},
            "FailedAndUnresolvableNodes": unresolvable or {},
            "Error": "",
        }
    )


def priorities(levels: Mapping[str, int]) -> bytes:
    """The answer to `prioritize`."""
    return msgspec.json.encode([{"Host": name, "Score": level} for name, level in levels.items()])


def preemption_result(victims: Mapping[str, Victims]) -> bytes:
    """The answer to `preempt`: always by ids."""
    return msgspec.json.encode(
        {
            "NodeNameToMetaVictims": {
                node: {
                    "Pods": [{"UID": uid} for uid in each.uids],
                    "NumPDBViolations": each.violations,
                }
                for node, each in victims.items()
            }
        }
    )


def error(message: str) -> bytes:
    """What went wrong; all that the answer to `bind` ever says."""
    return msgspec.json.encode({"Error": message})


class _PodMetadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = "default"
    uid: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _WirePod(msgspec.Struct):
    metadata: _PodMetadata
    spec: PodSpec = PodSpec()


class _Name(msgspec.Struct):
    name: str


class _Named(msgspec.Struct):
    metadata: _Name


class _Uid(msgspec.Struct):
    uid: str


class _WithUid(msgspec.Struct):
    metadata: _Uid


class _NodeList(msgspec.Struct):
    items: list[Raw] | None = None


_BEGINNING = "1970-01-01T00:00:00Z"


def _pod(fields: Mapping[str, Raw]) -> Pod:
    sent = _optional(fields, "Pod", _WirePod)
    if sent is None:
        raise Malformed("Pod: missing")
    meta = sent.metadata
    metadata = Metadata(
        meta.name,
        meta.uid,
        "",
        meta.namespace,
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        creation_timestamp=_BEGINNING,
    )
    return Pod(metadata, sent.spec)


def _meta_uids(victims: Mapping[str, Raw]) -> Iterable[str]:
    for at, raw in enumerate(_optional(victims, "Pods", tuple[Raw, ...]) or ()):
        uid = _optional(_fields(raw, f"Pods[{at}]"), "UID", str)
        if not uid:
            raise Malformed(f"Pods[{at}].UID: missing")
        yield uid


def _uids(victims: Mapping[str, Raw]) -> Iterable[str]:
    for each in _optional(victims, "Pods", tuple[_WithUid, ...]) or ():
        yield each.metadata.uid


def _fields(body: bytes | Raw, where: str) -> dict[str, Raw]:
    """The fields of an object, by their names in lower case."""
    found = _decoded(body, where, dict[str, Raw])
    return {name.lower(): value for name, value in found.items()}


def _optional(fields: Mapping[str, Raw], name: str, kind: type[T]) -> T | None:
    """A field that may be missing, or null."""
    raw = fields.get(name.lower())
    return None if raw is None or bytes(raw) == b"null" else _decoded(raw, name, kind)


def _decoded(body: bytes | Raw, where: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        raise Malformed(f"{where}: {problem}") from None
