"""What a pod wants of the pods around it, from its affinity and its spread constraints.

Selectors of namespaces become names: who reads pods does so again when labels of namespaces change.
"""

from collections.abc import Iterable, Mapping

from kilonova.scheduler.core.peers import Kind, Peers, Spread, Term
from kilonova.scheduler.core.requirements import Requirement
from kilonova.scheduler.objects import Pod, PodAffinity, PodTerm, SpreadConstraint
from kilonova.scheduler.reading.selectors import Requirements, requirements_of

Namespaces = Mapping[str, Mapping[str, str]]
"""Labels of each namespace."""

_NONE = PodAffinity()


def peers_of(pod: Pod, namespaces: Namespaces) -> Peers | None:
    """The rules of a pod about others; None if it has none."""
    affinity, constraints = pod.spec.affinity, pod.spec.topology_spread_constraints
    towards = affinity.pod_affinity if affinity is not None else None
    away = affinity.pod_anti_affinity if affinity is not None else None
    if towards is None and away is None and not constraints:
        return None
    towards, away = towards or _NONE, away or _NONE
    near = tuple(_term(pod, term, namespaces) for term in towards.required)
    node_affinity = affinity.node_affinity if affinity is not None else None
    return Peers(
        near=near,
        apart=tuple(_term(pod, term, namespaces) for term in away.required),
        liked=(
            *(
                (each.weight, _term(pod, each.pod_affinity_term, namespaces))
                for each in towards.preferred
            ),
            *(
                (-each.weight, _term(pod, each.pod_affinity_term, namespaces))
                for each in away.preferred
            ),
        ),
        spreads=tuple(_spread(pod, constraint) for constraint in constraints),
        first_of_kind=bool(near)
        and all(term.kind.includes(pod.metadata.namespace, pod.metadata.labels) for term in near),
        own_affinity=node_affinity is not None and node_affinity.required is not None,
    )


def needs_namespaces(pod: Pod) -> bool:
    """Whether labels of namespaces matter to what a pod asks for."""
    affinity = pod.spec.affinity
    if affinity is None:
        return False
    return any(
        term.namespace_selector is not None
        for rules in (affinity.pod_affinity or _NONE, affinity.pod_anti_affinity or _NONE)
        for term in (*rules.required, *(each.pod_affinity_term for each in rules.preferred))
    )


def _term(pod: Pod, term: PodTerm, namespaces: Namespaces) -> Term:
    labels = _with_keys(pod, requirements_of(term.label_selector), term)
    return Term(Kind(_namespaces(pod, term, namespaces), labels), term.topology_key)


def _namespaces(pod: Pod, term: PodTerm, namespaces: Namespaces) -> frozenset[str] | None:
    """The namespaces that a term is about: the pod's own where it says nothing."""
    selector = requirements_of(term.namespace_selector)
    if selector is None:
        return frozenset(term.namespaces or (pod.metadata.namespace,))
    if not selector:
        return None
    chosen = (
        name
        for name, labels in namespaces.items()
        if all(requirement.holds(labels) for requirement in selector)
    )
    return frozenset((*term.namespaces, *chosen))


def _with_keys(pod: Pod, labels: Requirements | None, term: PodTerm) -> Requirements | None:
    """Requirements that the pod's own labels bring; a selector that means nothing still does."""
    if labels is None:
        return None
    return _once(
        (
            *labels,
            *_like(pod, term.match_label_keys),
            *(
                Requirement(key, "NotIn", (pod.metadata.labels[key],))
                for key in term.mismatch_label_keys
                if key in pod.metadata.labels
            ),
        )
    )


def _spread(pod: Pod, constraint: SpreadConstraint) -> Spread:
    labels = requirements_of(constraint.label_selector)
    if labels is not None:
        labels = _once((*labels, *_like(pod, constraint.match_label_keys)))
    itself = labels is not None and all(each.holds(pod.metadata.labels) for each in labels)
    # Kubernetes counts no pods for a selector that means all, but takes the pod to be one of them.
    kind = Kind(frozenset({pod.metadata.namespace}), labels or None, staying=True)
    return Spread(
        kind,
        constraint.topology_key,
        constraint.max_skew,
        required=constraint.when_unsatisfiable == "DoNotSchedule",
        least_domains=constraint.min_domains or 1,
        by_affinity=constraint.node_affinity_policy != "Ignore",
        by_taints=constraint.node_taints_policy == "Honor",
        counts_itself=itself,
    )


def _like(pod: Pod, keys: Iterable[str]) -> Iterable[Requirement]:
    labels = pod.metadata.labels
    return (Requirement(key, "In", (labels[key],)) for key in keys if key in labels)


def _once(requirements: Requirements) -> Requirements:
    """The API server may have written what keys bring into the selector already."""
    return tuple(dict.fromkeys(requirements))
