"""What a pod wants of the pods around it: to stand near some, away from others, spread evenly.

A **kind** is the pods that a rule is about. A rule also names a level, and speaks of the domain of
that level in which the pod would stand. All of it is as Kubernetes means pod affinity,
anti-affinity and topology spread constraints.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kilonova.scheduler.core.requirements import Requirement

EVERYWHERE = "*"
"""The level of which the whole cluster is the one domain. No label has such a key."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Pods of some namespaces whose labels meet all requirements.

    `namespaces` None is all of them; `labels` None is met by no pod, an empty one by all.
    `staying` leaves out pods that are being deleted.
    """

    namespaces: frozenset[str] | None
    labels: tuple[Requirement, ...] | None
    staying: bool = False
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.namespaces, self.labels, self.staying)))

    def __hash__(self) -> int:
        return self._hash

    def includes(self, namespace: str, labels: Mapping[str, str], *, leaving: bool = False) -> bool:
        """Whether a pod is one of them."""
        if self.labels is None or (leaving and self.staying):
            return False
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return all(requirement.holds(labels) for requirement in self.labels)


def in_all(kinds: Iterable[Kind]) -> Kind:
    """The pods that are of every one of some kinds."""
    namespaces: frozenset[str] | None = None
    labels: tuple[Requirement, ...] | None = ()
    staying = False
    for kind in kinds:
        staying = staying or kind.staying
        if kind.namespaces is not None:
            namespaces = kind.namespaces if namespaces is None else namespaces & kind.namespaces
        labels = None if labels is None or kind.labels is None else (*labels, *kind.labels)
    return Kind(namespaces, labels, staying)


@dataclass(frozen=True, slots=True)
class Term:
    """Pods of a kind, within one domain of a level."""

    kind: Kind
    level: str


@dataclass(frozen=True, slots=True)
class Spread:
    """Pods of a kind in the domains of a level: nowhere more than `most` above the least.

    Nodes count that carry every level of the pod's spreads of the same strictness, that its own
    selectors allow (`by_affinity`), and whose taints it tolerates (`by_taints`).
    """

    kind: Kind
    level: str
    most: int = 1
    required: bool = True
    least_domains: int = 1
    """Where there are fewer domains, the least is taken to be nothing."""
    by_affinity: bool = True
    by_taints: bool = False
    counts_itself: bool = True
    """Whether the pod is of the kind."""


@dataclass(frozen=True, slots=True)
class Peers:
    """All rules of one pod about others. `near` and `apart` must hold; `liked` are wishes with
    their weights, below zero for pods that it would rather be away from."""

    near: tuple[Term, ...] = ()
    apart: tuple[Term, ...] = ()
    liked: tuple[tuple[int, Term], ...] = ()
    spreads: tuple[Spread, ...] = ()
    first_of_kind: bool = False
    """Whether it is itself what `near` asks for, and may be the first of them."""
    own_affinity: bool = False
    """Whether the first list in `Shape.one_of` is the pod's own, and not of a volume."""

    @property
    def wishes(self) -> bool:
        """Whether where others stand makes some nodes better than others."""
        return bool(self.liked) or any(not spread.required for spread in self.spreads)
