"""Groups of multi-node NVLink: an annotation of sets, scaling groups and cliques. Pure."""

from collections.abc import Iterator

from kilonova.api.grove import names
from kilonova.kube.admission import Problem
from kilonova.workloads.admission.composition import CLIQUES, GROUPS
from kilonova.workloads.admission.drafts import SetDraft
from kilonova.workloads.admission.findings import forbidden, invalid_value
from kilonova.workloads.admission.syntax import dns_label

_NONE = names.NO_MNNVL_GROUP


def mnnvl_problems(draft: SetDraft, *, enabled: bool, creating: bool) -> Iterator[Problem]:
    """What is wrong with the annotation, wherever it is."""
    for path, group, _ in _marks(draft):
        if group is None or group == _NONE:
            continue
        if trouble := dns_label(group):
            yield invalid_value(path, group, f'must be "{_NONE}" or the name of a group, {trouble}')
        elif creating and not enabled:
            rule = f'multi-node NVLink is off in this cluster; only "{_NONE}" is allowed'
            yield invalid_value(path, group, rule)


def mnnvl_changes(old: SetDraft, new: SetDraft) -> Iterator[Problem]:
    """Annotations that are not what they were; of what is new, there is nothing to say."""
    before = {owner: group for _, group, owner in _marks(old)}
    for path, group, owner in _marks(new):
        if owner in before and group != before[owner]:
            was = "absent" if before[owner] is None else f'"{before[owner]}"'
            yield forbidden(path, f"field is immutable: it was {was}")


def _marks(draft: SetDraft) -> Iterator[tuple[str, str | None, tuple[str, str]]]:
    """Where the annotation may be, what it is there, and whose it is."""
    yield _path("metadata"), draft.metadata.annotations.get(names.MNNVL_GROUP), ("set", "")
    for index, group in enumerate(draft.template.pod_clique_scaling_groups):
        mark = group.annotations.get(names.MNNVL_GROUP)
        yield _path(f"{GROUPS}[{index}]"), mark, ("group", group.name)
    for index, clique in enumerate(draft.template.cliques):
        mark = clique.annotations.get(names.MNNVL_GROUP)
        yield _path(f"{CLIQUES}[{index}]"), mark, ("clique", clique.name)


def _path(owner: str) -> str:
    return f"{owner}.annotations[{names.MNNVL_GROUP}]"
