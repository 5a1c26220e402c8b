"""The gangs and pods of a workload, by owner references and labels. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kilonova.api.group_kinds import WELL_KNOWN_GROUPS, GroupKind
from kilonova.api.grove import names
from kilonova.api.podgang import PodGang
from kilonova.api.pods.workload_owner import GANG, JOB, POD, Owned, Workload, list_owners
from kilonova.scheduler.objects.core_v1 import Pod

OWNER_KINDS = {
    "cronjob": ("cronjobs", "cj"),
    "daemonset": ("daemonsets", "ds"),
    "deployment": ("deployments", "deploy"),
    "gpuworkload": ("gpuworkloads", "gpuw", "gw"),
    "inferenceenginedeployment": ("inferenceenginedeployments", "ied"),
    "inferenceengineinstance": ("inferenceengineinstances", "iei"),
    "job": ("jobs",),
    "jobset": ("jobsets",),
    "leaderworkerset": ("leaderworkersets", "lws"),
    "podclique": ("podcliques", "pclq"),
    "podcliquescalinggroup": ("podcliquescalinggroups", "pcsg"),
    "podcliqueset": ("podcliquesets", "pcs", "set"),
    "replicaset": ("replicasets", "rs"),
    "statefulset": ("statefulsets", "sts"),
}
"""Kinds that own pods, and their plural and short names."""
_ALIASES = {alias: kind for kind, aliases in OWNER_KINDS.items() for alias in (kind, *aliases)}
_GROUPS = {kind.lower(): group for kind, group in WELL_KNOWN_GROUPS.items()}

_CRON_JOB = GroupKind("batch", "CronJob")
_MIN_CRONJOB_DIGITS = 8
"""The Jobs of a CronJob end in the minute of their schedule, with at least this many digits."""


@dataclass(frozen=True, slots=True)
class OwnerKind:
    """A kind as it is typed: in lower case, and without a group if any is meant."""

    kind: str
    group: str | None

    def matches(self, kind: GroupKind) -> bool:
        """Whether a kind is meant, by its singular or plural."""
        singular = kind.kind.lower()
        return self.kind in (singular, f"{singular}s") and self.group in (None, kind.group)

    @property
    def is_well_known(self) -> bool:
        """Whether it is one of the kinds that clusters usually have."""
        return self.kind in OWNER_KINDS and self.group == _GROUPS[self.kind]

    def __str__(self) -> str:
        is_implied = self.group is None or self.group == _GROUPS.get(self.kind)
        return self.kind if is_implied else f"{self.kind}.{self.group}"


def parse_owner_kind(typed: str) -> OwnerKind:
    """The kind of `deploy`, `jobs`, `statefulset.apps` or `experiment.example.com`.

    Without a group a well-known kind is that of its usual group; another kind is of any group.
    """
    name, dot, group = typed.lower().partition(".")
    kind = _ALIASES.get(name, name)
    if not dot:
        return OwnerKind(kind, _GROUPS.get(kind))
    # A short or plural name belongs to the well-known group alone.
    return OwnerKind(kind if group == _GROUPS.get(kind) else name, group)


def has_owner_of_kind(kind: OwnerKind, pods: Iterable[Pod], gangs: Iterable[PodGang]) -> bool:
    """Whether any pod or gang has an owner of a kind."""
    return any(kind.matches(each.kind) for owned in (*pods, *gangs) for each in _owners(owned))


def find_members(
    kind: OwnerKind | None, namespace: str, name: str, pods: Iterable[Pod], gangs: Iterable[PodGang]
) -> list[str]:
    """Names of the gangs of a workload, of any kind if `kind` is None, and of its pods that are in
    none of these gangs."""

    def is_member(owned: Pod | PodGang) -> bool:
        return owned.metadata.namespace == namespace and any(
            each.name == name and (kind is None or kind.matches(each.kind))
            for each in _owners(owned)
        )

    gang_names = {gang.metadata.name for gang in gangs if is_member(gang)}
    pod_names = {
        pod.metadata.name
        for pod in pods
        if pod.metadata.labels.get(names.POD_GANG) not in gang_names and is_member(pod)
    }
    return sorted(gang_names | pod_names)


def _owners(owned: Pod | PodGang) -> Iterator[Workload]:
    metadata = owned.metadata
    kind = GANG if isinstance(owned, PodGang) else POD
    for each in list_owners(Owned.from_metadata(kind, metadata), metadata.owner_references):
        yield each
        stem, _, number = each.name.rpartition("-")
        if each.kind == JOB and number.isdigit() and len(number) >= _MIN_CRONJOB_DIGITS:
            yield Workload(_CRON_JOB, each.namespace, stem)
