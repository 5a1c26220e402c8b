"""Kinds with their API group: a `Deployment` of another group is not the Deployment of `apps`.

As text a kind is `Kind.group`, as Kubernetes writes it. The groups of kinds that every user knows
are left out: `Deployment` is that of `apps`, `Deployment.example.com` another.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from kilonova.api import grove, inference_engine, kgwe, podgang

WELL_KNOWN_GROUPS = {
    "CronJob": "batch",
    "DaemonSet": "apps",
    "Deployment": "apps",
    "GPUWorkload": kgwe.GROUP,
    "InferenceEngineDeployment": inference_engine.GROUP,
    "InferenceEngineInstance": inference_engine.GROUP,
    "Job": "batch",
    "JobSet": "jobset.x-k8s.io",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io",
    "PodClique": grove.GROUP,
    "PodCliqueScalingGroup": grove.GROUP,
    "PodCliqueSet": grove.GROUP,
    "PodGang": podgang.GROUP,
    "ReplicaSet": "apps",
    "StatefulSet": "apps",
}
"""Groups that are left out of the text. Kinds that are not listed here and have no group are those
of the core group."""

_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9]*(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


class GroupKind(NamedTuple):
    """A kind of one API group, in any version."""

    group: str
    kind: str

    @classmethod
    def from_api_version(cls, api_version: str, kind: str) -> "GroupKind":
        """From the two fields that objects and owner references have."""
        return _from_api_version(api_version, kind)

    @classmethod
    def parse(cls, text: str) -> "GroupKind | None":
        """From its text; None if that is not a kind."""
        if not _PATTERN.fullmatch(text):
            return None
        kind, dot, group = text.partition(".")
        return cls(group if dot else WELL_KNOWN_GROUPS.get(kind, ""), kind)

    def __str__(self) -> str:
        return _format(self)


@lru_cache(maxsize=1024)
def _from_api_version(api_version: str, kind: str) -> GroupKind:
    return GroupKind(api_version.rpartition("/")[0], kind)


@lru_cache(maxsize=1024)
def _format(kind: GroupKind) -> str:
    is_implied = kind.group == WELL_KNOWN_GROUPS.get(kind.kind, "")
    return kind.kind if is_implied else f"{kind.kind}.{kind.group}"


def get_well_known(kind: str) -> GroupKind:
    """A kind whose group is well known; raises KeyError if it is not."""
    return GroupKind(WELL_KNOWN_GROUPS[kind], kind)
