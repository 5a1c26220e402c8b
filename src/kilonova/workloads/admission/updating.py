"""How fast a set is updated, and when a gang is given up. Pure."""

import re
from collections.abc import Iterator

from kilonova.api.durations import parse_duration
from kilonova.api.grove.parts import IntOrPercent, RollingUpdate
from kilonova.api.grove.podcliqueset import PodCliqueSetSpec
from kilonova.kube.admission import Problem
from kilonova.workloads.admission.composition import CLIQUES, GROUPS
from kilonova.workloads.admission.findings import invalid_value, required

_is_percent = re.compile("[0-9]{1,9}%").fullmatch


def lifecycle_problems(spec: PodCliqueSetSpec) -> Iterator[Problem]:
    """What is wrong with delays and the pace of updates."""
    template = spec.template
    if template.termination_delay is None:
        yield required("spec.template.terminationDelay", "must be set")
    else:
        yield from _duration_problems("spec.template.terminationDelay", template.termination_delay)
    if spec.update_strategy is not None:
        yield from _pace_problems("spec.updateStrategy", spec.update_strategy.rolling_update)
    for index, clique in enumerate(template.cliques):
        yield from _pace_problems(f"{CLIQUES}[{index}].spec", clique.spec.rolling_update)
    for index, group in enumerate(template.pod_clique_scaling_groups):
        yield from _pace_problems(f"{GROUPS}[{index}]", group.rolling_update)


def lifecycle_warnings(spec: PodCliqueSetSpec) -> Iterator[str]:
    """Where somebody names a pace that does not count."""
    members = {
        name for group in spec.template.pod_clique_scaling_groups for name in group.clique_names
    }
    for index, clique in enumerate(spec.template.cliques):
        if clique.spec.rolling_update is not None and clique.name in members:
            path = f"{CLIQUES}[{index}].spec.rollingUpdate"
            yield f"{path}: has no effect on a clique of a scaling group; set it on the group"


def _pace_problems(path: str, pace: RollingUpdate | None) -> Iterator[Problem]:
    if pace is None:
        return
    path = f"{path}.rollingUpdate"
    yield from _amount_problems(f"{path}.maxUnavailable", pace.max_unavailable, most=100)
    yield from _amount_problems(f"{path}.maxSurge", pace.max_surge)
    if _is_none(pace.max_unavailable, default=1) and _is_none(pace.max_surge, default=0):
        rule = "must not be 0 where maxSurge is 0: nothing could ever be replaced"
        yield invalid_value(f"{path}.maxUnavailable", pace.max_unavailable, rule)
    if pace.progress_deadline is not None:
        yield from _duration_problems(f"{path}.progressDeadline", pace.progress_deadline)


def _amount_problems(
    path: str, amount: IntOrPercent | None, most: int | None = None
) -> Iterator[Problem]:
    if isinstance(amount, int):
        if amount < 0:
            yield invalid_value(path, amount, "must be greater than or equal to 0")
    elif amount is not None:
        if not _is_percent(amount):
            yield invalid_value(path, amount, "must be a number or a percentage, such as 2 or 25%")
        elif most is not None and int(amount[:-1]) > most:
            yield invalid_value(path, amount, f"must not be greater than {most}%")


def _is_none(amount: IntOrPercent | None, default: int) -> bool:
    if isinstance(amount, str):
        return bool(_is_percent(amount)) and int(amount[:-1]) == 0
    return (default if amount is None else amount) == 0


def _duration_problems(path: str, text: str) -> Iterator[Problem]:
    try:
        seconds = parse_duration(text)
    except ValueError:
        yield invalid_value(path, text, "must be a duration, such as 90s, 1h30m or 4h")
    else:
        if seconds <= 0:
            yield invalid_value(path, text, "must be greater than 0")
