"""Which pods and gangs belong to a workload, by the names that people type. Pure."""

from collections.abc import Iterable, Iterator, Sequence

from kilonova.api.grove import names
from kilonova.api.podgang import PodGang
from kilonova.scheduler.objects import Pod

KINDS = {
    "cronjob": ("cronjobs", "cj"),
    "daemonset": ("daemonsets", "ds"),
    "deployment": ("deployments", "deploy"),
    "job": ("jobs",),
    "jobset": ("jobsets",),
    "leaderworkerset": ("leaderworkersets", "lws"),
    "podclique": ("podcliques", "pclq"),
    "podcliquescalinggroup": ("podcliquescalinggroups", "pcsg"),
    "podcliqueset": ("podcliquesets", "pcs", "set"),
    "replicaset": ("replicasets", "rs"),
    "statefulset": ("statefulsets", "sts"),
}
"""Kinds that own pods, and what else they are called."""
_ALIASES = {alias: kind for kind, aliases in KINDS.items() for alias in (kind, *aliases)}

_LABELS = {
    names.POD_CLIQUE: "podclique",
    names.SCALING_GROUP: "podcliquescalinggroup",
    "jobset.sigs.k8s.io/jobset-name": "jobset",
    "leaderworkerset.sigs.k8s.io/name": "leaderworkerset",
}
"""Labels of pods that name an owner which no reference of theirs leads to."""
_TEMPLATE_HASH = "pod-template-hash"
_MINUTES = 8
"""A CronJob names its Jobs by the minute for which they were made: so many digits at least."""


def owner_kind(typed: str) -> str | None:
    """The kind that is meant by `deploy`, `jobs` or `statefulset.apps`; None if none is."""
    return _ALIASES.get(typed.lower().partition(".")[0])


def kinds_of(pods: Iterable[Pod], gangs: Iterable[PodGang]) -> set[str]:
    """The kinds of all that owns pods or gangs, in lower case."""
    return {kind for made in (*pods, *gangs) for kind, _ in _references(made)}


def members_of(
    kind: str | None, namespace: str, name: str, pods: Iterable[Pod], gangs: Iterable[PodGang]
) -> list[str]:
    """Names of the gangs and pods of a workload; of any kind, if none is named. A gang stands for
    its pods."""
    found: dict[str, None] = {}
    listed: set[str] = set()
    for gang in gangs:
        owners = _owners(gang.metadata.labels, _references(gang))
        if gang.metadata.namespace == namespace and _is_among(kind, name, owners):
            found[gang.metadata.name] = None
            listed.add(gang.metadata.name)
    for pod in pods:
        owners = _owners(pod.metadata.labels, _references(pod))
        if (
            pod.metadata.namespace == namespace
            and pod.metadata.labels.get(names.POD_GANG) not in listed
            and _is_among(kind, name, owners)
        ):
            found[pod.metadata.name] = None
    return sorted(found)


def _is_among(kind: str | None, name: str, owners: Iterable[tuple[str, str]]) -> bool:
    return any(named == name and kind in (None, each) for each, named in owners)


def _references(made: Pod | PodGang) -> Sequence[tuple[str, str]]:
    return [(each.kind.lower(), each.name) for each in made.metadata.owner_references]


def _owners(
    labels: dict[str, str], references: Iterable[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    for kind, name in references:
        yield kind, name
        made_by = f"-{labels.get(_TEMPLATE_HASH, '')}"
        if kind == "replicaset" and name.endswith(made_by):
            yield "deployment", name.removesuffix(made_by)
        stem, _, number = name.rpartition("-")
        if kind == "job" and number.isdigit() and len(number) >= _MINUTES:
            yield "cronjob", stem
    if labels.get(names.MANAGED_BY) == names.OPERATOR and names.PART_OF in labels:
        yield "podcliqueset", labels[names.PART_OF]
    for label, kind in _LABELS.items():
        if label in labels:
            yield kind, labels[label]
