"""The controller of one PodClique: its pods and its status.

Pods are classified first (`pods.classification`). A *member* holds one of the clique's indexes. A
pod of an earlier incarnation, a failed pod, or a second pod of an index is deleted. In cliques that
run to completion, failed pods are kept and counted, and succeeded pods keep their index.

Members beyond the desired number are deleted, and free indexes get a pod. Its name is computed from
the index (`builders.pods.choose_pod_name`), so that the gang can list it before it exists. A pod is
created *gated* unless its gang lists it and may be scheduled; in a clique with startup dependencies
it waits in its init container until it is *released*. An update replaces outdated members as fast
as the clique's rolling update allows, with *surge pods* if maxSurge allows them.

`build_clique_controller` is the entry point; `desire` decides.
"""

from kilonova.workloads.controllers.podclique.controller import build_clique_controller

__all__ = ["build_clique_controller"]
