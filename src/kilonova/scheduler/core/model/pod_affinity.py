"""Pod affinity, pod anti-affinity and topology spread constraints, with Kubernetes' semantics.

A rule selects pods and names a level; it applies to the domain of that level in which the pod would
be placed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kilonova.scheduler.core.model.requirements import Requirement

WHOLE_CLUSTER = "*"
"""The level with the whole cluster as its only domain. No label has such a key."""


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Pods of some namespaces whose labels match all requirements.

    `namespaces` None selects all of them; `labels` None selects no pod, empty labels all pods.
    `excludes_terminating` leaves out terminating pods.
    """

    namespaces: frozenset[str] | None
    labels: tuple[Requirement, ...] | None
    excludes_terminating: bool = False
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "_hash", hash((self.namespaces, self.labels, self.excludes_terminating))
        )

    def __hash__(self) -> int:
        return self._hash

    def matches(
        self, namespace: str, labels: Mapping[str, str], *, terminating: bool = False
    ) -> bool:
        """Whether the selector matches a pod."""
        if self.labels is None or (terminating and self.excludes_terminating):
            return False
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return all(requirement.matches(labels) for requirement in self.labels)


def intersect_selectors(selectors: Iterable[PodSelector]) -> PodSelector:
    """A selector of the pods that all of some selectors match."""
    namespaces: frozenset[str] | None = None
    labels: tuple[Requirement, ...] | None = ()
    staying = False
    for selector in selectors:
        staying = staying or selector.excludes_terminating
        if selector.namespaces is not None:
            namespaces = (
                selector.namespaces if namespaces is None else namespaces & selector.namespaces
            )
        labels = None if labels is None or selector.labels is None else (*labels, *selector.labels)
    return PodSelector(namespaces, labels, staying)


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """Selected pods within one domain of a level."""

    selector: PodSelector
    level: str


@dataclass(frozen=True, slots=True)
class TopologySpread:
    """Selected pods in the domains of a level, as a topologySpreadConstraint.

    Counted are the nodes that have every level of the pod's spread constraints of the same
    strictness, that match its own node selectors (`honors_node_affinity`), and whose taints it
    tolerates (`honors_taints`).
    """

    selector: PodSelector
    level: str
    max_skew: int = 1
    required: bool = True
    min_domains: int = 1
    """With fewer domains, the global minimum is taken as 0."""
    honors_node_affinity: bool = True
    honors_taints: bool = False
    matches_itself: bool = True
    """Whether the constraint selects the pod itself."""


@dataclass(frozen=True, slots=True)
class PodAffinityRules:
    """All rules of one pod about other pods. `affinity` and `anti_affinity` are required;
    `preferred` are terms with their weights, negative for anti-affinity."""

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[tuple[int, AffinityTerm], ...] = ()
    topology_spread: tuple[TopologySpread, ...] = ()
    matches_own_affinity: bool = False
    """Whether the pod matches its own required affinity, so that the first such pod can be
    placed."""
    has_node_affinity: bool = False
    """Whether the first list in `Shape.required_node_terms` is the pod's own node affinity, and
    not of a volume."""

    @property
    def has_preferences(self) -> bool:
        """Whether scores depend on where other pods are placed."""
        return bool(self.preferred) or any(not spread.required for spread in self.topology_spread)
