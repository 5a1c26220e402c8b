"""Statuses of objects, as every controller writes them.

- `conditions`: find, set and remove conditions; a transition time changes only with the status.
- `patch`: the merge patch between two statuses, with what differs and nothing else.
- `writer`: writes a status to the object that was observed, not to another one of its name.
- `throttle`: how often a status is written while it keeps changing.

`conditions` and `patch` are pure.
"""

from kilonova.kube.status.conditions import (
    encode_condition,
    find_condition,
    has_same_content,
    is_condition_true,
    keep_transition_time,
    with_condition,
    without_condition,
)
from kilonova.kube.status.patch import build_status_patch
from kilonova.kube.status.throttle import StatusThrottle, WriteCongestion
from kilonova.kube.status.writer import StatusWriter, apply_status, patch_status

__all__ = [
    "StatusThrottle",
    "StatusWriter",
    "WriteCongestion",
    "apply_status",
    "build_status_patch",
    "encode_condition",
    "find_condition",
    "has_same_content",
    "is_condition_true",
    "keep_transition_time",
    "patch_status",
    "with_condition",
    "without_condition",
]
