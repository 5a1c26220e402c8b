"""Multi-node NVLink groups: an annotation of sets, scaling groups and cliques. Pure."""

from collections.abc import Iterator

from kilonova.api.grove import names
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import forbidden, invalid_value
from kilonova.kube.admission.syntax import check_dns_label
from kilonova.workloads.admission.manifests import SetManifest
from kilonova.workloads.admission.validation.structure import CLIQUES_PATH, SCALING_GROUPS_PATH

_NO_GROUP = names.NO_MNNVL_GROUP


def validate_mnnvl_groups(
    manifest: SetManifest, *, enabled: bool, creating: bool
) -> Iterator[FieldError]:
    """Errors of the annotation on a set and its parts."""
    for path, group, _ in _iterate_annotations(manifest):
        if group is None or group == _NO_GROUP:
            continue
        if problem := check_dns_label(group):
            yield invalid_value(
                path, group, f'must be "{_NO_GROUP}" or the name of a group, {problem}'
            )
        elif creating and not enabled:
            rule = f'multi-node NVLink is disabled in this cluster; only "{_NO_GROUP}" is allowed'
            yield invalid_value(path, group, rule)


def validate_mnnvl_unchanged(old: SetManifest, new: SetManifest) -> Iterator[FieldError]:
    """Errors for annotations that have changed; new cliques and groups are not compared."""
    before = {owner: group for _, group, owner in _iterate_annotations(old)}
    for path, group, owner in _iterate_annotations(new):
        if owner in before and group != before[owner]:
            was = "absent" if before[owner] is None else f'"{before[owner]}"'
            yield forbidden(path, f"field is immutable: it was {was}")


def _iterate_annotations(
    manifest: SetManifest,
) -> Iterator[tuple[str, str | None, tuple[str, str]]]:
    """Path, value and owner of the annotation on a set and its parts."""
    yield (
        _annotation_path("metadata"),
        manifest.metadata.annotations.get(names.MNNVL_GROUP),
        ("set", ""),
    )
    for index, group in enumerate(manifest.template.pod_clique_scaling_groups):
        value = group.annotations.get(names.MNNVL_GROUP)
        yield _annotation_path(f"{SCALING_GROUPS_PATH}[{index}]"), value, ("group", group.name)
    for index, clique in enumerate(manifest.template.cliques):
        value = clique.annotations.get(names.MNNVL_GROUP)
        yield _annotation_path(f"{CLIQUES_PATH}[{index}]"), value, ("clique", clique.name)


def _annotation_path(owner: str) -> str:
    return f"{owner}.annotations[{names.MNNVL_GROUP}]"
