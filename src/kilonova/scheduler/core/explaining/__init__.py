"""Why a gang waits and what would let it in; why a pod stands where it does.

The **binding constraint** is what keeps a gang from its place; a **tally** counts the nodes that
will not do, by reason; a **change** is something that would let the gang in, and is proposed only
after it was tried on a copy of the cluster, a **trial**. Nothing here is called while gangs are
placed: explanations are made for those who ask.
"""

from kilonova.scheduler.core.explaining.binding import Binding
from kilonova.scheduler.core.explaining.changes import Change, Proposal
from kilonova.scheduler.core.explaining.explanation import Explainer, Explanation, explain
from kilonova.scheduler.core.explaining.points import NodeScore, PlacementScore, explain_placement
from kilonova.scheduler.core.explaining.tallies import Count, Tally

__all__ = [
    "Binding",
    "Change",
    "Count",
    "Explainer",
    "Explanation",
    "NodeScore",
    "PlacementScore",
    "Proposal",
    "Tally",
    "explain",
    "explain_placement",
]
