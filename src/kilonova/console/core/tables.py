"""Tables of nodes, pods, events, and the workloads that own pods."""

from typing import Any

from kilonova.component.console import Table
from kilonova.console.objects import (
    CLIQUES,
    DEPLOYMENTS,
    EVENTS,
    GANGS,
    GPU_WORKLOADS,
    JOBS,
    NODES,
    PODS,
    SETS,
    STATEFUL_SETS,
)
from kilonova.console.rows.events import event_row, last_seen
from kilonova.console.rows.gangs import clique_row, gang_row, set_row
from kilonova.console.rows.nodes import node_row
from kilonova.console.rows.owners import (
    deployment_row,
    gpu_workload_row,
    job_row,
    stateful_set_row,
)
from kilonova.console.rows.pods import pod_row

TABLES: tuple[Table[Any], ...] = (
    Table("nodes", NODES, node_row),
    Table("pods", PODS, pod_row),
    Table("gangs", GANGS, gang_row),
    Table("sets", SETS, set_row),
    Table("cliques", CLIQUES, clique_row),
    Table("deployments", DEPLOYMENTS, deployment_row),
    Table("statefulsets", STATEFUL_SETS, stateful_set_row),
    Table("jobs", JOBS, job_row),
    Table("gpuworkloads", GPU_WORKLOADS, gpu_workload_row),
    Table("events", EVENTS, event_row, last_activity=last_seen),
)
