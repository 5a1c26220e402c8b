"""Pods on simulated nodes: `lifecycle.PodSimulator` runs them, without processes.

`state` reads pods, and `status` builds the statuses that are written; both are pure. `image_pulls`
and `container_restarts` are the two ways in which a start is delayed.
"""
