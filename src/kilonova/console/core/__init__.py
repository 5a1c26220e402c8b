"""What the console itself contributes: nodes, pods, events, and the workloads that own pods."""

from kilonova.component.console import (
    Action,
    ConsoleContribution,
    Page,
    SearchTarget,
    ValueInput,
    standard_actions,
)
from kilonova.console.core import actions, series
from kilonova.console.core.tables import TABLES

__all__ = ["CONTRIBUTION", "TABLES"]

_REPLICAS = ValueInput("Replicas", field="replicas")
_REPLICATED = ("sets", "cliques", "deployments", "statefulsets")
_DELETABLE = (*_REPLICATED, "jobs", "pods", "gangs")

CONTRIBUTION = ConsoleContribution(
    component="console",
    tables=TABLES,
    # Their views are in frontend/src/pages.
    pages=(
        Page(path="/fleet", title="Fleet", key="f", icon="fleet", order=10),
        Page(
            path="/workloads",
            title="Workloads",
            key="w",
            icon="workloads",
            order=20,
            has_details=True,
        ),
        Page(path="/nodes", title="Nodes", key="n", icon="nodes", order=40),
        Page(path="/events", title="Events", key="e", icon="events", order=50),
    ),
    actions=(
        *(
            Action(name="scale", table=table, perform=standard_actions.scale, value=_REPLICAS)
            for table in _REPLICATED
        ),
        Action(name="restart", table="deployments", perform=actions.restart),
        Action(name="restart", table="statefulsets", perform=actions.restart),
        Action(name="suspend", table="jobs", perform=actions.suspend),
        Action(name="resume", table="jobs", perform=actions.resume),
        Action(name="cordon", table="nodes", perform=actions.cordon),
        Action(name="uncordon", table="nodes", perform=actions.uncordon),
        Action(name="drain", table="nodes", perform=actions.drain),
        *(
            Action(name="delete", table=table, perform=standard_actions.delete)
            for table in _DELETABLE
        ),
    ),
    search=(
        SearchTarget("workloads", "Workload", ("{kind} in {namespace}", "{state}"), order=10),
        SearchTarget(
            "nodes", "Node", ("{gpus} × {product}", "{zone}", "{block}", "{rack}"), order=30
        ),
        SearchTarget("gangs", "Gang", ("{namespace}", "{phase}"), order=900),
        SearchTarget("pods", "Pod", ("{namespace}", "{state}", "on {node}"), order=910),
    ),
    series=series.SERIES,
)
