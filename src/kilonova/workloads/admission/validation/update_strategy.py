"""Update strategy and terminationDelay. Pure."""

from collections.abc import Iterator

from kilonova.api.grove.common import RollingUpdate
from kilonova.api.grove.podcliqueset import PodCliqueSetSpec
from kilonova.kube.admission import FieldError
from kilonova.kube.admission.field_errors import invalid_value, required
from kilonova.kube.admission.field_rules import (
    is_zero_amount,
    validate_amount,
    validate_duration,
)
from kilonova.workloads.admission.validation.structure import CLIQUES_PATH, SCALING_GROUPS_PATH


def validate_update_strategy(spec: PodCliqueSetSpec) -> Iterator[FieldError]:
    """Errors of terminationDelay and of rolling updates."""
    template = spec.template
    if template.termination_delay is None:
        yield required("spec.template.terminationDelay", "must be set")
    else:
        yield from validate_duration("spec.template.terminationDelay", template.termination_delay)
    if spec.update_strategy is not None:
        yield from _validate_rolling_update(
            "spec.updateStrategy", spec.update_strategy.rolling_update
        )
    for index, clique in enumerate(template.cliques):
        yield from _validate_rolling_update(
            f"{CLIQUES_PATH}[{index}].spec", clique.spec.rolling_update
        )
    for index, group in enumerate(template.pod_clique_scaling_groups):
        yield from _validate_rolling_update(f"{SCALING_GROUPS_PATH}[{index}]", group.rolling_update)


def warn_about_update_strategy(spec: PodCliqueSetSpec) -> Iterator[str]:
    """Warnings for rolling updates that have no effect."""
    members = {
        name for group in spec.template.pod_clique_scaling_groups for name in group.clique_names
    }
    for index, clique in enumerate(spec.template.cliques):
        if clique.spec.rolling_update is not None and clique.name in members:
            path = f"{CLIQUES_PATH}[{index}].spec.rollingUpdate"
            yield f"{path}: has no effect on a clique of a scaling group; set it on the group"


def _validate_rolling_update(
    path: str, rolling_update: RollingUpdate | None
) -> Iterator[FieldError]:
    if rolling_update is None:
        return
    path = f"{path}.rollingUpdate"
    yield from validate_amount(
        f"{path}.maxUnavailable", rolling_update.max_unavailable, max_percent=100
    )
    yield from validate_amount(f"{path}.maxSurge", rolling_update.max_surge)
    if is_zero_amount(rolling_update.max_unavailable, default=1) and is_zero_amount(
        rolling_update.max_surge, default=0
    ):
        rule = "must not be 0 if maxSurge is 0: no pod could be replaced"
        yield invalid_value(f"{path}.maxUnavailable", rolling_update.max_unavailable, rule)
    if rolling_update.progress_deadline is not None:
        yield from validate_duration(f"{path}.progressDeadline", rolling_update.progress_deadline)
