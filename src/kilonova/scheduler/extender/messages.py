"""The messages of the extender protocol (k8s.io/kube-scheduler/extender/v1).

The messages are Go structs without JSON tags: field names are written capitalised and read
case-insensitively. Pods and nodes inside them are encoded as in the Kubernetes API. Nodes are
returned as the exact bytes that were received.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec
from msgspec import Raw

from kilonova.api.meta import Metadata
from kilonova.scheduler.objects.core_v1 import Pod, PodSpec

T = TypeVar("T")

MAX_PRIORITY = 10
"""The highest score of the protocol."""


class InvalidMessage(ValueError):
    """A body that is not a message of the protocol."""


@dataclass(frozen=True, slots=True)
class ExtenderArgs:
    """A pod and the names of the nodes to filter; `nodes` if complete nodes were sent."""

    pod: Pod
    node_names: tuple[str, ...]
    nodes: tuple[Raw, ...] | None = None


@dataclass(frozen=True, slots=True)
class Victims:
    """The victims on one node, and how many PodDisruptionBudget violations their eviction
    causes."""

    uids: tuple[str, ...]
    pdb_violations: int = 0


@dataclass(frozen=True, slots=True)
class PreemptionArgs:
    """A pod, and the victims that kube-scheduler would preempt for it, by node."""

    pod: Pod
    victims: Mapping[str, Victims]


@dataclass(frozen=True, slots=True)
class BindingArgs:
    """A pod and the node that was chosen for it."""

    namespace: str
    name: str
    uid: str
    node: str

    @property
    def pod_key(self) -> str:
        return f"{self.namespace}/{self.name}"


def decode_args(body: bytes) -> ExtenderArgs:
    """The arguments of `filter` and `prioritize`."""
    fields = _decode_fields(body, "the body")
    pod = _decode_pod(fields)
    names = _decode_optional(fields, "NodeNames", tuple[str, ...])
    if names is not None:
        return ExtenderArgs(pod, names)
    nodes = _decode_optional(fields, "Nodes", _NodeList)
    if nodes is None:
        raise InvalidMessage("neither NodeNames nor Nodes: one of them is required")
    objects = tuple(nodes.items or ())
    named = (_decode(raw, f"Nodes.items[{at}]", _WithName) for at, raw in enumerate(objects))
    return ExtenderArgs(pod, tuple(each.metadata.name for each in named), objects)


def decode_preemption_args(body: bytes) -> PreemptionArgs:
    """The arguments of `preempt`, with complete victims or only their UIDs."""
    fields = _decode_fields(body, "the body")
    pod = _decode_pod(fields)
    victims: dict[str, Victims] = {}
    for name, pods in (
        ("NodeNameToMetaVictims", _meta_victim_uids),
        ("NodeNameToVictims", _victim_uids),
    ):
        by_node = _decode_optional(fields, name, dict[str, Raw])
        for node, raw in (by_node or {}).items():
            inside = _decode_fields(raw, f"{name}[{node}]")
            violations = _decode_optional(inside, "NumPDBViolations", int) or 0
            victims[node] = Victims(tuple(pods(inside)), violations)
        if by_node is not None:
            return PreemptionArgs(pod, victims)
    raise InvalidMessage("neither NodeNameToMetaVictims nor NodeNameToVictims")


def decode_binding_args(body: bytes) -> BindingArgs:
    """The arguments of `bind`."""
    fields = _decode_fields(body, "the body")
    texts = {
        name: _decode_optional(fields, name, str) or ""
        for name in ("PodNamespace", "PodName", "PodUID", "Node")
    }
    missing = [name for name in ("PodNamespace", "PodName", "Node") if not texts[name]]
    if missing:
        raise InvalidMessage(f"{', '.join(missing)}: missing or empty")
    return BindingArgs(texts["PodNamespace"], texts["PodName"], texts["PodUID"], texts["Node"])


def encode_filter_result(
    args: ExtenderArgs,
    passed: Iterable[str] = (),
    failed: Mapping[str, str] | None = None,
    unresolvable: Mapping[str, str] | None = None,
) -> bytes:
    """The result of `filter`, in the form in which the nodes were sent."""
    names: list[str] | None = list(passed)
    nodes = None
    if args.nodes is not None:
        feasible = set(names)
        named_nodes = zip(args.node_names, args.nodes, strict=True)
        nodes, names = {"items": [raw for name, raw in named_nodes if name in feasible]}, None
    return msgspec.json.encode(
        {
            "Nodes": nodes,
            "NodeNames": names,
            "FailedNodes": failed or {},
            "FailedAndUnresolvableNodes": unresolvable or {},
            "Error": "",
        }
    )


def encode_priorities(levels: Mapping[str, int]) -> bytes:
    """The result of `prioritize`."""
    return msgspec.json.encode([{"Host": name, "Score": level} for name, level in levels.items()])


def encode_preemption_result(victims: Mapping[str, Victims]) -> bytes:
    """The result of `preempt`, always by UID."""
    return msgspec.json.encode(
        {
            "NodeNameToMetaVictims": {
                node: {
                    "Pods": [{"UID": uid} for uid in each.uids],
                    "NumPDBViolations": each.pdb_violations,
                }
                for node, each in victims.items()
            }
        }
    )


def encode_error(message: str) -> bytes:
    """An error message; the only content of a result of `bind`."""
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


class _WithName(msgspec.Struct):
    metadata: _Name


class _Uid(msgspec.Struct):
    uid: str


class _WithUid(msgspec.Struct):
    metadata: _Uid


class _NodeList(msgspec.Struct):
    items: list[Raw] | None = None


_EPOCH = "1970-01-01T00:00:00Z"


def _decode_pod(fields: Mapping[str, Raw]) -> Pod:
    wire_pod = _decode_optional(fields, "Pod", _WirePod)
    if wire_pod is None:
        raise InvalidMessage("Pod: missing")
    meta = wire_pod.metadata
    metadata = Metadata(
        meta.name,
        meta.uid,
        "",
        meta.namespace,
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        creation_timestamp=_EPOCH,
    )
    return Pod(metadata, wire_pod.spec)


def _meta_victim_uids(victims: Mapping[str, Raw]) -> Iterable[str]:
    for at, raw in enumerate(_decode_optional(victims, "Pods", tuple[Raw, ...]) or ()):
        uid = _decode_optional(_decode_fields(raw, f"Pods[{at}]"), "UID", str)
        if not uid:
            raise InvalidMessage(f"Pods[{at}].UID: missing")
        yield uid


def _victim_uids(victims: Mapping[str, Raw]) -> Iterable[str]:
    for each in _decode_optional(victims, "Pods", tuple[_WithUid, ...]) or ():
        yield each.metadata.uid


def _decode_fields(body: bytes | Raw, where: str) -> dict[str, Raw]:
    """The fields of an object by lower-case name."""
    found = _decode(body, where, dict[str, Raw])
    return {name.lower(): value for name, value in found.items()}


def _decode_optional(fields: Mapping[str, Raw], name: str, kind: type[T]) -> T | None:
    """A field that may be missing or null."""
    raw = fields.get(name.lower())
    return None if raw is None or bytes(raw) == b"null" else _decode(raw, name, kind)


def _decode(body: bytes | Raw, where: str, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as problem:
        raise InvalidMessage(f"{where}: {problem}") from None
