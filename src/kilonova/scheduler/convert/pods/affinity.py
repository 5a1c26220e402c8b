"""Pod affinity, anti-affinity and topology spread constraints.

Namespace selectors are resolved to names: pods are converted again when namespace labels change.
"""

from collections.abc import Iterable, Mapping

from kilonova.scheduler.convert.selectors import Requirements, convert_label_selector
from kilonova.scheduler.core.model.pod_affinity import (
    AffinityTerm,
    PodAffinityRules,
    PodSelector,
    TopologySpread,
)
from kilonova.scheduler.core.model.requirements import Requirement
from kilonova.scheduler.objects.core_v1 import (
    Pod,
    PodAffinity,
    PodAffinityTerm,
    TopologySpreadConstraint,
)

NamespaceLabels = Mapping[str, Mapping[str, str]]
"""Labels of each namespace."""

_NO_AFFINITY = PodAffinity()


def convert_pod_affinity(pod: Pod, namespaces: NamespaceLabels) -> PodAffinityRules | None:
    """The affinity and spread rules of a pod; None if it has none."""
    affinity, constraints = pod.spec.affinity, pod.spec.topology_spread_constraints
    towards = affinity.pod_affinity if affinity is not None else None
    away = affinity.pod_anti_affinity if affinity is not None else None
    if towards is None and away is None and not constraints:
        return None
    towards, away = towards or _NO_AFFINITY, away or _NO_AFFINITY
    near = tuple(_convert_term(pod, term, namespaces) for term in towards.required)
    node_affinity = affinity.node_affinity if affinity is not None else None
    return PodAffinityRules(
        affinity=near,
        anti_affinity=tuple(_convert_term(pod, term, namespaces) for term in away.required),
        preferred=(
            *(
                (each.weight, _convert_term(pod, each.pod_affinity_term, namespaces))
                for each in towards.preferred
            ),
            *(
                (-each.weight, _convert_term(pod, each.pod_affinity_term, namespaces))
                for each in away.preferred
            ),
        ),
        topology_spread=tuple(
            _convert_spread_constraint(pod, constraint) for constraint in constraints
        ),
        matches_own_affinity=bool(near)
        and all(
            term.selector.matches(pod.metadata.namespace, pod.metadata.labels) for term in near
        ),
        has_node_affinity=node_affinity is not None and node_affinity.required is not None,
    )


def uses_namespace_selector(pod: Pod) -> bool:
    """Whether the conversion of a pod depends on namespace labels."""
    affinity = pod.spec.affinity
    if affinity is None:
        return False
    return any(
        term.namespace_selector is not None
        for rules in (
            affinity.pod_affinity or _NO_AFFINITY,
            affinity.pod_anti_affinity or _NO_AFFINITY,
        )
        for term in (*rules.required, *(each.pod_affinity_term for each in rules.preferred))
    )


def _convert_term(pod: Pod, term: PodAffinityTerm, namespaces: NamespaceLabels) -> AffinityTerm:
    labels = _with_label_keys(pod, convert_label_selector(term.label_selector), term)
    return AffinityTerm(
        PodSelector(_select_namespaces(pod, term, namespaces), labels), term.topology_key
    )


def _select_namespaces(
    pod: Pod, term: PodAffinityTerm, namespaces: NamespaceLabels
) -> frozenset[str] | None:
    """The namespaces of a term; by default the pod's own. None for all."""
    selector = convert_label_selector(term.namespace_selector)
    if selector is None:
        return frozenset(term.namespaces or (pod.metadata.namespace,))
    if not selector:
        return None
    selected = (
        name
        for name, labels in namespaces.items()
        if all(requirement.matches(labels) for requirement in selector)
    )
    return frozenset((*term.namespaces, *selected))


def _with_label_keys(
    pod: Pod, labels: Requirements | None, term: PodAffinityTerm
) -> Requirements | None:
    """Add the requirements of `matchLabelKeys` and `mismatchLabelKeys`; a null selector matches
    nothing."""
    if labels is None:
        return None
    return _deduplicate(
        (
            *labels,
            *_match_own_labels(pod, term.match_label_keys),
            *(
                Requirement(key, "NotIn", (pod.metadata.labels[key],))
                for key in term.mismatch_label_keys
                if key in pod.metadata.labels
            ),
        )
    )


def _convert_spread_constraint(pod: Pod, constraint: TopologySpreadConstraint) -> TopologySpread:
    labels = convert_label_selector(constraint.label_selector)
    if labels is not None:
        labels = _deduplicate((*labels, *_match_own_labels(pod, constraint.match_label_keys)))
    itself = labels is not None and all(each.matches(pod.metadata.labels) for each in labels)
    # Kubernetes counts no pods for an empty selector, but counts the pod itself.
    kind = PodSelector(
        frozenset({pod.metadata.namespace}), labels or None, excludes_terminating=True
    )
    return TopologySpread(
        kind,
        constraint.topology_key,
        constraint.max_skew,
        required=constraint.when_unsatisfiable == "DoNotSchedule",
        min_domains=constraint.min_domains or 1,
        honors_node_affinity=constraint.node_affinity_policy != "Ignore",
        honors_taints=constraint.node_taints_policy == "Honor",
        matches_itself=itself,
    )


def _match_own_labels(pod: Pod, keys: Iterable[str]) -> Iterable[Requirement]:
    labels = pod.metadata.labels
    return (Requirement(key, "In", (labels[key],)) for key in keys if key in labels)


def _deduplicate(requirements: Requirements) -> Requirements:
    """The API server may have merged the label keys into the selector already."""
    return tuple(dict.fromkeys(requirements))
