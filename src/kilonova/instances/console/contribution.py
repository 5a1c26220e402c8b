"""Tables and pages of inference engines."""

from kilonova.component.console import (
    Column,
    Conditions,
    ConsoleContribution,
    Entries,
    Events,
    Fields,
    LiveObject,
    Page,
    Related,
    SearchTarget,
    Table,
    Tone,
)
from kilonova.instances.console.rows import deployment_row, instance_row
from kilonova.instances.resources import DEPLOYMENTS, INSTANCES

INSTANCE_TABLE = Table("instances", INSTANCES, instance_row)
DEPLOYMENT_TABLE = Table("instance-deployments", DEPLOYMENTS, deployment_row)

_PHASES: dict[str, Tone] = {
    "Pending": "wait",
    "Allocating": "wait",
    "Starting": "busy",
    "Ready": "good",
    "Degraded": "warn",
    "Repairing": "busy",
    "Relocating": "busy",
    "Failed": "bad",
    "Terminating": "idle",
}
_NAME = Column(field="name", title="Name")
_NAMESPACE = Column(field="namespace", title="Namespace", filter=True, shown="wide", width="150px")
_AGE = Column(field="created", title="Age", format="age", shown="full", width="80px")
_PHASE = Column(
    field="phase", title="Phase", format="state", tones=_PHASES, filter=True, width="120px"
)


def _count(field: str, title: str) -> Column:
    return Column(field=field, title=title, format="number", width="90px")


_INSTANCE_PAGE = Page(
    path="/instances",
    title="Instances",
    icon="workloads",
    order=55,
    table="instances",
    hide_empty=True,
    columns=(
        _NAME,
        _NAMESPACE,
        Column(field="model", title="Model", filter=True, shown="full"),
        _PHASE,
        _count("agents", "Agents"),
        _count("ready", "Ready"),
        Column(field="domain", title="Domain", shown="full", width="22%"),
        Column(field="recreated", title="Repairs", format="number", shown="full", width="90px"),
        Column(field="problem", title="Problem", shown="full"),
        _AGE,
    ),
    state=_PHASE,
    sections=(
        Fields(
            (
                Column(field="model", title="Model"),
                Column(field="problem", title="Problem"),
                _count("agents", "Agents"),
                _count("ready", "Ready agents"),
                Column(field="domain", title="Domain"),
                Column(field="deployment", title="Deployment", link="instance-deployments"),
                Column(field="release", title="Release"),
                Column(field="build", title="Build", format="code"),
                Column(field="strategy", title="Allocation strategy", format="code"),
                Column(field="policy", title="Repair policy", format="code"),
                Column(field="queue", title="Queue", link="queues"),
            )
        ),
        Fields(
            (
                _count("recreated", "Agent pods recreated"),
                _count("relocated", "Relocations"),
                Column(field="lastRepair", title="Last repair", format="age"),
                Column(field="lastReason", title="Reason"),
            ),
            title="Repairs",
        ),
        Entries(
            "Nodes",
            "nodes",
            (
                Column(field="node", title="Node", link="nodes"),
                Column(field="agents", title="Agents"),
                Column(field="domain", title="Domain"),
            ),
        ),
        Conditions(),
        Events(),
        LiveObject(),
    ),
    empty="kubectl apply -f examples/instances/instance.yaml",
)
_DEPLOYMENT_PAGE = Page(
    path="/instance-deployments",
    title="Deployments",
    icon="workloads",
    order=56,
    table="instance-deployments",
    hide_empty=True,
    columns=(
        _NAME,
        _NAMESPACE,
        Column(field="release", title="Release"),
        _count("desired", "Desired"),
        _count("ready", "Ready"),
        _count("updated", "Updated"),
        _count("unallocatable", "Unallocatable"),
        Column(field="paused", title="Paused", format="flag", shown="wide"),
        _AGE,
    ),
    sections=(
        Fields(
            (
                Column(field="release", title="Release"),
                _count("desired", "Desired"),
                _count("ready", "Ready"),
                _count("updated", "Updated"),
                _count("unallocatable", "Unallocatable"),
                _count("additional", "More would fit"),
                Column(field="additionalReason", title="Not more because"),
            )
        ),
        Related(
            title="Instances",
            table="instances",
            by="deployment",
            columns=(_NAME, _PHASE, _count("ready", "Ready agents"), _AGE),
        ),
        Conditions(),
        Events(),
        LiveObject(),
    ),
    empty="kubectl apply -f examples/instances",
)

CONTRIBUTION = ConsoleContribution(
    component="instances",
    tables=(INSTANCE_TABLE, DEPLOYMENT_TABLE),
    pages=(_INSTANCE_PAGE, _DEPLOYMENT_PAGE),
    search=(
        SearchTarget("instances", "Instance", ("{phase}", "{model}")),
        SearchTarget("instance-deployments", "Instance deployment", ("release {release}",)),
    ),
)
