"""The agent of a member: runs in its cluster what the fleet's manager decided.

- `apply`: reads `desired/CLUSTER` from the store, checks its epoch, and writes the
  InferenceEngineDeployments that differ. Without the store everything goes on as it was.
- `report`: writes `observed/CLUSTER`, when something changed and as a heartbeat.
- `plan` and `observation` are pure: what to write, and what to report.

`build_member` is the entry point.
"""

from kilonova.fleet.member.assembly import Member, build_member
from kilonova.fleet.member.settings import MemberSettings

__all__ = ["Member", "MemberSettings", "build_member"]
