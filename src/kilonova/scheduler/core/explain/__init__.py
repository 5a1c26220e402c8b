"""Why a gang is pending and what would make it schedulable; why a pod was placed on its node.

The **blocking constraint** is the one that keeps a gang pending; a **node diagnosis** counts the
infeasible nodes by reason; a **change** would make the gang schedulable, and is proposed only after
it was verified on a copy of the cluster, the **trial cluster**. `Explainer` is the entry point for
gangs, `explain_placement` for pods. Nothing here runs in the scheduling cycle: explanations are
computed on request.
"""

from kilonova.scheduler.core.explain.blocking_constraint import BlockingConstraint
from kilonova.scheduler.core.explain.changes.change import Change, ProposedChange
from kilonova.scheduler.core.explain.diagnosis import NodeDiagnosis, RejectionCount
from kilonova.scheduler.core.explain.explanation import Explainer, Explanation, explain
from kilonova.scheduler.core.explain.score_breakdown import (
    NodeScore,
    PodPlacementScore,
    explain_placement,
)

__all__ = [
    "BlockingConstraint",
    "Change",
    "Explainer",
    "Explanation",
    "NodeDiagnosis",
    "NodeScore",
    "PodPlacementScore",
    "ProposedChange",
    "RejectionCount",
    "explain",
    "explain_placement",
]
