"""The names of a set, its cliques and its scaling groups, and their membership. Pure."""

from collections.abc import Iterator, Sequence

from kilonova.api.grove import names
from kilonova.api.grove.podcliqueset import CliqueTemplate, Template
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import (
    duplicate,
    invalid_value,
    not_found,
    required,
)
from kilonova.kube.admission.syntax import (
    check_dns_label,
    check_dns_subdomain,
    check_label_key,
    check_label_value,
)
from kilonova.workloads.admission.manifests import SetManifest
from kilonova.workloads.admission.validation.name_conflicts import find_name_conflicts
from kilonova.workloads.builders.labels import is_reserved_annotation, is_reserved_label
from kilonova.workloads.limits import CLIQUES_PATH, SCALING_GROUPS_PATH

_NAME_PATH = "metadata.name"
_ANNOTATIONS_LIMIT = 256 * 1024
_RESERVED_KEY_RULE = (
    f"keys with the prefix {names.RESERVED_PREFIX} are reserved for the operator: remove it"
)


def validate_structure(manifest: SetManifest) -> Iterator[FieldError]:
    """Errors of names, and of the members of scaling groups."""
    template = manifest.template
    yield from validate_name(_NAME_PATH, manifest.metadata.name)
    if not template.cliques:
        yield required(CLIQUES_PATH, "at least one clique is needed")
    yield from _validate_unique(
        [(f"{CLIQUES_PATH}[{i}].name", c.name) for i, c in enumerate(template.cliques)]
    )
    yield from _validate_unique(
        [
            (f"{CLIQUES_PATH}[{i}].spec.roleName", c.role_name)
            for i, c in enumerate(template.cliques)
        ]
    )
    for index, clique in enumerate(template.cliques):
        yield from validate_name(f"{CLIQUES_PATH}[{index}].name", clique.name)
        yield from _validate_clique_metadata(f"{CLIQUES_PATH}[{index}]", clique)
    groups = template.pod_clique_scaling_groups
    yield from _validate_unique(
        [(f"{SCALING_GROUPS_PATH}[{i}].name", g.name) for i, g in enumerate(groups)]
    )
    for index, group in enumerate(groups):
        yield from validate_name(f"{SCALING_GROUPS_PATH}[{index}].name", group.name)
        if not group.clique_names:
            yield required(
                f"{SCALING_GROUPS_PATH}[{index}].cliqueNames", "at least one clique is needed"
            )
    yield from _validate_group_members(template)
    yield from _validate_name_lengths(manifest)


def validate_name_conflicts(template: Template) -> Iterator[FieldError]:
    """Errors for objects of an otherwise valid set that would have the same name."""
    for conflict in find_name_conflicts(template):
        rule = f"{conflict.one} and {conflict.other} would have the same {conflict.kind} name"
        yield FieldError("spec.template", f"Invalid value: {rule}: rename one of them")


def validate_name(path: str, name: str) -> Iterator[FieldError]:
    """A name that host names and Services are derived from."""
    if not name:
        yield required(path, "must not be empty")
    elif (problem := check_dns_label(name)) is not None:
        if check_dns_subdomain(name) is None and "." in name:
            problem = "must not contain dots: host names and Services are derived from it"
        yield invalid_value(path, name, problem)


def _validate_clique_metadata(path: str, clique: CliqueTemplate) -> Iterator[FieldError]:
    for key, value in clique.labels.items():
        if problem := check_label_key(key):
            yield invalid_value(f"{path}.labels", key, problem)
        elif is_reserved_label(key):
            yield invalid_value(f"{path}.labels", key, _RESERVED_KEY_RULE)
        if problem := check_label_value(value):
            yield invalid_value(f"{path}.labels", value, problem)
    for key in clique.annotations:
        if problem := check_label_key(key.lower()):
            yield invalid_value(f"{path}.annotations", key, problem)
        elif is_reserved_annotation(key):
            yield invalid_value(f"{path}.annotations", key, _RESERVED_KEY_RULE)
    size = sum(len(f"{key}{value}".encode()) for key, value in clique.annotations.items())
    if size > _ANNOTATIONS_LIMIT:
        too_long = f"Too long: may not be more than {_ANNOTATIONS_LIMIT} bytes"
        yield FieldError(f"{path}.annotations", too_long)


def _validate_group_members(template: Template) -> Iterator[FieldError]:
    known = {clique.name for clique in template.cliques}
    owner: dict[str, str] = {}
    for index, group in enumerate(template.pod_clique_scaling_groups):
        for position, name in enumerate(group.clique_names):
            path = f"{SCALING_GROUPS_PATH}[{index}].cliqueNames[{position}]"
            if name not in known:
                yield not_found(path, name, "must be the name of a clique of this set")
            elif name in owner:
                yield duplicate(path, name, f'is already in scaling group "{owner[name]}"')
            owner.setdefault(name, group.name)


def _validate_name_lengths(manifest: SetManifest) -> Iterator[FieldError]:
    """Pod names are composed of these names; each of them is reported."""
    template, set_name = manifest.template, manifest.metadata.name
    paths = {clique.name: f"{CLIQUES_PATH}[{i}].name" for i, clique in enumerate(template.cliques)}
    members: set[str] = set()
    for index, group in enumerate(template.pod_clique_scaling_groups):
        for name in group.clique_names:
            members.add(name)
            parts = [(_NAME_PATH, set_name), (f"{SCALING_GROUPS_PATH}[{index}].name", group.name)]
            if name in paths:
                yield from _validate_combined_length([*parts, (paths[name], name)])
    for name, path in paths.items():
        if name not in members:
            yield from _validate_combined_length([(_NAME_PATH, set_name), (path, name)])


def _validate_combined_length(parts: Sequence[tuple[str, str]]) -> Iterator[FieldError]:
    length = sum(len(name) for _, name in parts)
    if length > names.MAX_COMBINED_NAME_LENGTH:
        parts_text = " + ".join(f'"{name}"' for _, name in parts)
        rule = (
            f"the names that pod names are composed of must have at most "
            f"{names.MAX_COMBINED_NAME_LENGTH} characters in total: {parts_text} has {length}"
        )
        for path, name in parts:
            yield invalid_value(path, name, rule)


def _validate_unique(named: Sequence[tuple[str, str]]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for path, name in named:
        if name in seen:
            yield duplicate(path, name)
        seen.add(name)
