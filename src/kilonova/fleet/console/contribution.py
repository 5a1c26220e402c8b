"""Tables and pages of the fleet."""

from kilonova.api import fleet, inference_engine
from kilonova.api.fleet import Cluster
from kilonova.api.inference_engine import Deployment, Release
from kilonova.component.console import (
    Column,
    Conditions,
    ConsoleContribution,
    Entries,
    Events,
    Fields,
    LiveObject,
    Page,
    SearchTarget,
    Table,
    Tone,
)
from kilonova.fleet.console.rows import cluster_row, global_deployment_row, release_row
from kilonova.kube import Resource

_HEALTH: dict[str, Tone] = {
    "Healthy": "good",
    "Suspect": "warn",
    "Lost": "bad",
    "Failing": "bad",
    "Unknown": "idle",
}
_WAVES: dict[str, Tone] = {
    "Done": "good",
    "RollingOut": "busy",
    "Baking": "wait",
    "Failed": "bad",
    "Pending": "idle",
}

CLUSTERS = Table(
    "clusters",
    Resource(fleet.GROUP, fleet.VERSION, "clusters", "Cluster", False, Cluster),
    cluster_row,
)
GLOBAL_DEPLOYMENTS = Table(
    "global-deployments",
    Resource(
        inference_engine.GROUP,
        inference_engine.VERSION,
        "deployments",
        "Deployment",
        True,
        Deployment,
    ),
    global_deployment_row,
)
RELEASES = Table(
    "releases",
    Resource(
        inference_engine.GROUP, inference_engine.VERSION, "releases", "Release", True, Release
    ),
    release_row,
)

_NAME = Column(field="name", title="Name")
_NAMESPACE = Column(field="namespace", title="Namespace", filter=True, shown="wide", width="150px")
_AGE = Column(field="created", title="Age", format="age", shown="full", width="80px")
_CLUSTER = Column(field="cluster", title="Cluster", link="clusters")
_CLUSTER_HEALTH = Column(
    field="health", title="Health", format="state", tones=_HEALTH, filter=True, width="120px"
)
_LAST_SEEN = Column(field="lastSeen", title="Last seen", format="age", width="100px")


def _count(field: str, title: str) -> Column:
    return Column(field=field, title=title, format="number", width="90px")


CONTRIBUTION = ConsoleContribution(
    component="fleet",
    tables=(CLUSTERS, GLOBAL_DEPLOYMENTS, RELEASES),
    pages=(
        Page(
            path="/clusters",
            title="Clusters",
            icon="nodes",
            order=60,
            table="clusters",
            hide_empty=True,
            columns=(
                _NAME,
                Column(field="region", title="Region", filter=True),
                _CLUSTER_HEALTH,
                _count("instances", "Instances"),
                _count("ready", "Ready"),
                Column(field="cordoned", title="Cordoned", format="flag", shown="wide"),
                _LAST_SEEN,
            ),
            state=_CLUSTER_HEALTH,
            sections=(
                Fields(
                    (
                        Column(field="region", title="Region"),
                        Column(field="reason", title="Reason"),
                        Column(field="console", title="Console", format="url"),
                        _count("weight", "Weight"),
                        _count("nodes", "Nodes"),
                        _count("instances", "Instances"),
                        _count("ready", "Ready"),
                        Column(field="cordoned", title="Cordoned", format="flag"),
                        Column(field="evacuated", title="Evacuated", format="flag"),
                        _count("epoch", "Epoch"),
                        _LAST_SEEN,
                    )
                ),
                Entries(
                    "Accelerators",
                    "accelerators",
                    (
                        Column(field="resource", title="Resource"),
                        _count("total", "Total"),
                        _count("free", "Free"),
                    ),
                ),
                Conditions(),
                Events(),
                LiveObject(),
            ),
            empty="A cluster joins the fleet with a Cluster object and a member agent.",
        ),
        Page(
            path="/global-deployments",
            title="Rollouts",
            icon="workloads",
            order=61,
            table="global-deployments",
            hide_empty=True,
            columns=(
                _NAME,
                _NAMESPACE,
                Column(field="release", title="Release"),
                _count("desired", "Desired"),
                _count("ready", "Ready"),
                Column(field="wave", title="Wave", shown="wide"),
                _count("unallocatable", "Unallocatable"),
                _AGE,
            ),
            sections=(
                Fields(
                    (
                        Column(field="release", title="Release"),
                        _count("desired", "Desired"),
                        _count("observed", "Observed"),
                        _count("ready", "Ready"),
                        _count("unallocatable", "Unallocatable"),
                        _count("relocated", "Relocated"),
                        Column(field="masked", title="Masked releases", format="list"),
                    )
                ),
                Entries(
                    "Clusters",
                    "clusters",
                    (
                        _CLUSTER,
                        Column(field="health", title="Health", format="state", tones=_HEALTH),
                        _count("desired", "Desired"),
                        _count("observed", "Observed"),
                        _count("ready", "Ready"),
                        Column(field="release", title="Release"),
                        _LAST_SEEN,
                        Column(field="reason", title="Reason"),
                    ),
                ),
                Entries(
                    "Waves",
                    "waves",
                    (
                        Column(field="name", title="Wave"),
                        Column(field="phase", title="Phase", format="state", tones=_WAVES),
                        Column(field="clusters", title="Clusters"),
                        Column(field="started", title="Started", format="age"),
                        Column(field="message", title="Message"),
                    ),
                ),
                Entries(
                    "History",
                    "history",
                    (
                        _count("revision", "Revision"),
                        Column(field="release", title="Release"),
                        Column(field="health", title="Health", format="state", tones=_HEALTH),
                        Column(field="since", title="Since", format="age"),
                    ),
                ),
                Conditions(),
                Events(),
                LiveObject(),
            ),
            empty="Create a Release and a Deployment of inference-engine.groq.io.",
        ),
        Page(
            path="/releases",
            title="Releases",
            icon="events",
            order=62,
            table="releases",
            hide_empty=True,
            columns=(
                _NAME,
                _NAMESPACE,
                Column(field="model", title="Model"),
                Column(field="build", title="Build", shown="wide"),
                _CLUSTER_HEALTH,
                Column(field="masked", title="Masked", format="flag", shown="wide"),
                _count("instances", "Instances"),
                _AGE,
            ),
            sections=(
                Fields(
                    (
                        Column(field="model", title="Model"),
                        Column(field="build", title="Build", format="code"),
                        Column(field="image", title="Image", format="code"),
                        Column(field="tokenizer", title="Tokenizer", format="code"),
                        Column(field="masked", title="Masked", format="flag"),
                    )
                ),
                Entries(
                    "Clusters",
                    "clusters",
                    (
                        _CLUSTER,
                        _count("instances", "Instances"),
                        _count("ready", "Ready"),
                        Column(field="since", title="Since", format="age"),
                    ),
                ),
                Events(),
                LiveObject(),
            ),
        ),
    ),
    search=(
        SearchTarget("clusters", "Cluster", ("{health}", "in {region}")),
        SearchTarget("global-deployments", "Deployment", ("release {release}",)),
        SearchTarget("releases", "Release", ("{model}",)),
    ),
)
