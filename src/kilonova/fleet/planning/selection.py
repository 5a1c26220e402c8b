"""Which clusters a deployment may have instances in, and how many it asks for."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from kilonova.api.durations import parse_duration
from kilonova.api.fleet import Cluster
from kilonova.api.inference_engine import ClusterSelector, DeploymentSpec

_FOREVER_SECONDS = 1e9
REGION = "region"
CLUSTER = "cluster"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many instances a cluster may have, and its share in the rest."""

    low: int = 0
    high: int | None = None
    weight: int = 1


def selects(selector: ClusterSelector, cluster: Cluster) -> bool:
    """Whether a selector selects a cluster; an empty one selects all."""
    if selector.regions and cluster.spec.region not in selector.regions:
        return False
    labels = cluster.metadata.labels
    return all(labels.get(key) == value for key, value in selector.match_labels.items())


def find_bounds(spec: DeploymentSpec, cluster: Cluster) -> Bounds | None:
    """The bounds by the first placement that names or selects a cluster; None if none does."""
    if not spec.placements:
        return Bounds()
    for each in spec.placements:
        if each.cluster is not None:
            matches = each.cluster == cluster.metadata.name
        else:
            matches = selects(each.cluster_selector or ClusterSelector(), cluster)
        if matches:
            return Bounds(each.min, each.max, each.weight)
    return None


def describe_missing(named: Iterable[str | None], existing: Collection[str]) -> str:
    """Which of the clusters that a spec names do not exist; empty if all do."""
    missing = sorted({each for each in named if each is not None and each not in existing})
    if not missing:
        return ""
    return f"cluster {', '.join(missing)} does not exist"


def count_total(spec: DeploymentSpec, clusters: Sequence[Cluster]) -> int:
    """The number of instances that are asked for."""
    if spec.replicas is not None:
        return spec.replicas
    bounds = (find_bounds(spec, each) for each in clusters)
    return sum(each.low for each in bounds if each is not None)


def find_domain(spec: DeploymentSpec, cluster: Cluster) -> str:
    """The failure domain that instances are spread over."""
    if spec.spread is None or spec.spread.by == CLUSTER:
        return cluster.metadata.name
    if spec.spread.by == REGION:
        return cluster.spec.region
    return cluster.metadata.labels.get(spec.spread.by, "")


def read_seconds(duration: str) -> float:
    """The seconds of a duration. One that is too long to be valid, which the schema of the API lets
    pass, is a very long time: it must not stop the pass for all others."""
    try:
        return parse_duration(duration)
    except ValueError:
        return _FOREVER_SECONDS
