"""One clique: its pods, and how it is.

The **roster** sorts what pods there are. A **member** holds one of the clique's indexes: it is up,
starts, waits, or has done its work. A pod of an earlier incarnation, one that has failed, one whose
index another holds better, is **dismissed**. Where pods run to an end, those that failed are kept
and counted, and those that succeeded keep their place.

From the roster follows everything else. A member beyond those wanted goes, an index that nobody
holds gets a pod; its name is worked out from the index (`templates.pods.pod_name`), so that the
gang can name it before it is there. A pod is born **gated** unless its gang lists it and may be
placed; in a clique that starts after others it waits in its init container until it is
**released**. In an update outdated members go as fast as the clique allows, with **temporary** ones
in their stead where it may have more pods than replicas.
"""

from kilonova.workloads.cliques.controller import build_clique_controller

__all__ = ["build_clique_controller"]
