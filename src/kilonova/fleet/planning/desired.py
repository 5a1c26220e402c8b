"""What each cluster is to run."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from kilonova.api.inference_engine import EngineSpec, Release
from kilonova.fleet.documents import DesiredDeployment, Relocation
from kilonova.fleet.planning.deployment import CellPlan, DeploymentPlan
from kilonova.fleet.planning.model import ClusterInput, ObjectKey
from kilonova.fleet.planning.report import find_relocations


def build_desired(
    clusters: Sequence[ClusterInput],
    plans: Sequence[DeploymentPlan],
    releases: Mapping[ObjectKey, Release],
) -> dict[str, tuple[DesiredDeployment, ...]]:
    """All that each cluster is to run: instances, and probes where there are none."""
    former = {
        each.cluster.metadata.name: {(old.namespace, old.name): old for old in each.desired}
        for each in clusters
    }
    desired: dict[str, list[DesiredDeployment]] = {name: [] for name in former}
    templates: dict[ObjectKey, EngineSpec] = {}
    for plan in plans:
        metadata = plan.deployment.metadata
        relocations = {each.source: each for each in find_relocations(plan)}
        for cell in plan.cells:
            name = cell.cell.name
            old = former[name].get((metadata.namespace, metadata.name))
            relocation = old.relocation if old is not None else None
            if (moved := relocations.get(name)) is not None:
                number = 1 if relocation is None else relocation.number + 1
                relocation = Relocation(number, moved.instances, moved.target)
            new = _build_deployment(plan, cell, old, releases, templates, relocation)
            if new is not None:
                desired[name].append(new)
    return {name: tuple(found) for name, found in desired.items()}


def _build_deployment(
    plan: DeploymentPlan,
    cell: CellPlan,
    old: DesiredDeployment | None,
    releases: Mapping[ObjectKey, Release],
    templates: dict[ObjectKey, EngineSpec],
    relocation: Relocation | None,
) -> DesiredDeployment | None:
    metadata, release = plan.deployment.metadata, cell.release
    is_probe = not cell.desired
    if is_probe and cell.cell.state == "leaving" and not _has_instances(cell):
        return None
    template = _find_template(metadata.namespace, release, releases, templates)
    if template is None:
        # A release that is gone cannot be applied, but goes on where it runs.
        return None if old is None else replace(old, replicas=cell.desired, relocation=relocation)
    return DesiredDeployment(
        namespace=metadata.namespace,
        name=metadata.name,
        global_deployment=metadata.name,
        release=release,
        template=template,
        replicas=cell.desired,
        reason=cell.reason,
        relocation=relocation,
    )


def _has_instances(cell: CellPlan) -> bool:
    observed = cell.cell.observed
    return observed is not None and observed.replicas > 0


def _find_template(
    namespace: str,
    release: str,
    releases: Mapping[ObjectKey, Release],
    templates: dict[ObjectKey, EngineSpec],
) -> EngineSpec | None:
    key = (namespace, release)
    if key not in templates and key in releases:
        templates[key] = replace(releases[key].spec, release=release)
    return templates.get(key)
