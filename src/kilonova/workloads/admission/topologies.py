"""Whether a ClusterTopologyBinding may be as somebody wants to have it. Pure."""

from collections.abc import Iterator, Sequence

from kilonova.api.grove.topology import Level, SchedulerTopology
from kilonova.api.json import JsonObject
from kilonova.kube.admission import Problem
from kilonova.workloads.admission.drafts import read_topology
from kilonova.workloads.admission.findings import Findings, duplicate, invalid_value
from kilonova.workloads.admission.schedulers import WITHOUT_TOPOLOGY
from kilonova.workloads.admission.syntax import label_key
from kilonova.workloads.settings import Settings


def validate_topology(obj: JsonObject, settings: Settings) -> Findings:
    """What is wrong with a topology."""
    draft = read_topology(obj)
    if isinstance(draft, Problem):
        return Findings((draft,))
    problems = [
        *_level_problems(draft.spec.levels),
        *_scheduler_problems(draft.spec.scheduler_topology_bindings, settings.schedulers),
    ]
    return Findings(tuple(problems))


def _level_problems(levels: Sequence[Level]) -> Iterator[Problem]:
    domains: set[str] = set()
    keys: set[str] = set()
    for index, level in enumerate(levels):
        path = f"spec.levels[{index}]"
        if level.domain in domains:
            yield duplicate(f"{path}.domain", level.domain)
        if level.key in keys:
            yield duplicate(f"{path}.key", level.key)
        elif trouble := label_key(level.key):
            yield invalid_value(f"{path}.key", level.key, f"must be the key of a label: {trouble}")
        domains.add(level.domain)
        keys.add(level.key)


def _scheduler_problems(
    bindings: Sequence[SchedulerTopology], schedulers: Sequence[str]
) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, binding in enumerate(bindings):
        path, name = (
            f"spec.schedulerTopologyBindings[{index}].schedulerName",
            binding.scheduler_name,
        )
        # Grove's tests look for the name that the field had once, and for these words.
        once = f"(once spec.schedulerTopologyReferences[{index}].schedulerName)"
        if name in seen:
            yield duplicate(path, name, f"one topology for each scheduler {once}")
        elif name not in schedulers:
            yield invalid_value(path, name, f"scheduler backend is not enabled in Grove {once}")
        elif name in WITHOUT_TOPOLOGY:
            rule = f"scheduler backend does not implement topology-aware scheduling {once}"
            yield invalid_value(path, name, rule)
        seen.add(name)
