"""What a member reports. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from kilonova.api.inference_engine import InferenceEngineDeployment, InstancePhase, names
from kilonova.fleet.documents import ObservedDeployment, ReleaseCount
from kilonova.fleet.member.resources import Instance
from kilonova.kube import Key

_UNPLACED: tuple[InstancePhase, ...] = ("Pending", "Allocating", "Failed")
_FAILING: tuple[InstancePhase, ...] = ("Degraded", "Repairing", "Relocating")


def observe_deployments(
    deployments: Iterable[InferenceEngineDeployment],
    find_instances: Callable[[Key], Sequence[Instance]],
    problems: dict[Key, str],
) -> tuple[ObservedDeployment, ...]:
    """The states of the fleet's deployments, by key. `problems` are those of writing them; one of a
    deployment that does not exist is reported, too."""
    found = {(each.metadata.namespace, each.metadata.name): each for each in deployments}
    observed = [
        _observe(each, find_instances(key), problems.get(key, "")) for key, each in found.items()
    ]
    observed += [
        ObservedDeployment(namespace=namespace, name=name, problems=(problem,))
        for (namespace, name), problem in problems.items()
        if (namespace, name) not in found
    ]
    return tuple(sorted(observed, key=lambda each: (each.namespace, each.name)))


def _observe(
    deployment: InferenceEngineDeployment, instances: Sequence[Instance], problem: str
) -> ObservedDeployment:
    metadata, status = deployment.metadata, deployment.status
    active = [each for each in instances if each.metadata.deletion_timestamp is None]
    phases = Counter(each.status.phase for each in active)
    # What the controller said about a former template does not hold for this one.
    is_current = status.observed_generation == metadata.generation
    return ObservedDeployment(
        namespace=metadata.namespace,
        name=metadata.name,
        global_deployment=metadata.labels.get(names.GLOBAL_DEPLOYMENT, ""),
        release=deployment.spec.release,
        releases=_count_releases(active),
        replicas=len(active),
        ready=min(phases["Ready"], status.ready_replicas),
        updated=status.updated_replicas if is_current else 0,
        placed=sum(count for phase, count in phases.items() if phase not in _UNPLACED),
        failing=sum(phases[phase] for phase in _FAILING),
        unallocatable=min(phases["Failed"], status.unallocatable),
        additional_replicas=status.additional_replicas if is_current else None,
        message=status.additional_replicas_message,
        problems=(problem,) if problem else (),
    )


def _count_releases(instances: Sequence[Instance]) -> tuple[ReleaseCount, ...]:
    replicas = Counter(each.spec.release for each in instances)
    ready = Counter(each.spec.release for each in instances if each.status.phase == "Ready")
    return tuple(ReleaseCount(name, replicas[name], ready[name]) for name in sorted(replicas))
