"""One package per controller: PodCliqueSet, one replica of it, PodClique, ClusterTopologyBinding.

PodGangs and PodCliqueScalingGroups are written by `podcliqueset_replica`.

Each follows observe, desire, apply: read the caches, decide in pure functions, write the difference
and wait until the caches show it.
"""
