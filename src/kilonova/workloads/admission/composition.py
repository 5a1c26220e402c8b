"""Which cliques and scaling groups a set has, and what they are called. Pure."""

from collections.abc import Iterator, Sequence

from kilonova.api.grove import names
from kilonova.api.grove.podcliqueset import CliqueTemplate, Template
from kilonova.kube.admission import Problem
from kilonova.workloads.admission.drafts import SetDraft
from kilonova.workloads.admission.findings import duplicate, invalid_value, not_found, required
from kilonova.workloads.admission.syntax import dns_label, dns_subdomain, label_key, label_value
from kilonova.workloads.limits import CLIQUES, GROUPS
from kilonova.workloads.templates.clashes import name_clashes
from kilonova.workloads.templates.labels import is_reserved_annotation, is_reserved_label

_NAME = "metadata.name"
_ANNOTATIONS_LIMIT = 256 * 1024
_RESERVED = f"keys that begin with {names.RESERVED_PREFIX} are the operator's own: remove it"


def composition_problems(draft: SetDraft) -> Iterator[Problem]:
    """What is wrong with names, and with which clique is where."""
    template = draft.template
    yield from name_problems(_NAME, draft.metadata.name)
    if not template.cliques:
        yield required(CLIQUES, "a set has at least one clique")
    yield from _repeated([(f"{CLIQUES}[{i}].name", c.name) for i, c in enumerate(template.cliques)])
    yield from _repeated(
        [(f"{CLIQUES}[{i}].spec.roleName", c.role_name) for i, c in enumerate(template.cliques)]
    )
    for index, clique in enumerate(template.cliques):
        yield from name_problems(f"{CLIQUES}[{index}].name", clique.name)
        yield from _mark_problems(f"{CLIQUES}[{index}]", clique)
    groups = template.pod_clique_scaling_groups
    yield from _repeated([(f"{GROUPS}[{i}].name", g.name) for i, g in enumerate(groups)])
    for index, group in enumerate(groups):
        yield from name_problems(f"{GROUPS}[{index}].name", group.name)
        if not group.clique_names:
            yield required(f"{GROUPS}[{index}].cliqueNames", "a scaling group has cliques")
    yield from _membership_problems(template)
    yield from _length_problems(draft)


def clash_problems(template: Template) -> Iterator[Problem]:
    """Names that objects of a set with no other problems would come to share."""
    for clash in name_clashes(template):
        rule = f"{clash.one} and {clash.other} would come to share the name of a {clash.kind}"
        yield Problem("spec.template", f"Invalid value: {rule}: rename one of them")


def name_problems(path: str, name: str) -> Iterator[Problem]:
    """A name that host names and Services are made from."""
    if not name:
        yield required(path, "must not be empty")
    elif (trouble := dns_label(name)) is not None:
        if dns_subdomain(name) is None and "." in name:
            trouble = "must not contain dots: host names and Services are made from it"
        yield invalid_value(path, name, trouble)


def _mark_problems(path: str, clique: CliqueTemplate) -> Iterator[Problem]:
    for key, value in clique.labels.items():
        if trouble := label_key(key):
            yield invalid_value(f"{path}.labels", key, trouble)
        elif is_reserved_label(key):
            yield invalid_value(f"{path}.labels", key, _RESERVED)
        if trouble := label_value(value):
            yield invalid_value(f"{path}.labels", value, trouble)
    for key in clique.annotations:
        if trouble := label_key(key.lower()):
            yield invalid_value(f"{path}.annotations", key, trouble)
        elif is_reserved_annotation(key):
            yield invalid_value(f"{path}.annotations", key, _RESERVED)
    size = sum(len(f"{key}{value}".encode()) for key, value in clique.annotations.items())
    if size > _ANNOTATIONS_LIMIT:
        too_long = f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes"
        yield Problem(f"{path}.annotations", too_long)


def _membership_problems(template: Template) -> Iterator[Problem]:
    known = {clique.name for clique in template.cliques}
    owner: dict[str, str] = {}
    for index, group in enumerate(template.pod_clique_scaling_groups):
        for place, name in enumerate(group.clique_names):
            path = f"{GROUPS}[{index}].cliqueNames[{place}]"
            if name not in known:
                yield not_found(path, name, "must be the name of a clique of this set")
            elif name in owner:
                yield duplicate(path, name, f'is in scaling group "{owner[name]}" already')
            owner.setdefault(name, group.name)


def _length_problems(draft: SetDraft) -> Iterator[Problem]:
    """Names of pods are put together from names; each of these is told of it."""
    template, set_name = draft.template, draft.metadata.name
    places = {clique.name: f"{CLIQUES}[{i}].name" for i, clique in enumerate(template.cliques)}
    members: set[str] = set()
    for index, group in enumerate(template.pod_clique_scaling_groups):
        for name in group.clique_names:
            members.add(name)
            parts = [(_NAME, set_name), (f"{GROUPS}[{index}].name", group.name)]
            if name in places:
                yield from _too_long([*parts, (places[name], name)])
    for name, path in places.items():
        if name not in members:
            yield from _too_long([(_NAME, set_name), (path, name)])


def _too_long(parts: Sequence[tuple[str, str]]) -> Iterator[Problem]:
    length = sum(len(name) for _, name in parts)
    if length > names.LONGEST_PARTS:
        together = " + ".join(f'"{name}"' for _, name in parts)
        rule = (
            f"must be at most {names.LONGEST_PARTS} characters together with what pods are named "
            f"by: {together} has {length}"
        )
        for path, name in parts:
            yield invalid_value(path, name, rule)


def _repeated(named: Sequence[tuple[str, str]]) -> Iterator[Problem]:
    seen: set[str] = set()
    for path, name in named:
        if name in seen:
            yield duplicate(path, name)
        seen.add(name)
