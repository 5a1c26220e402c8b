"""The kubelet of the process node: runs pods as processes of this machine.

A *run* is one attempt to run a container; a container's *history* is its last two runs. The runtime
shim holds the processes and outlives the kubelet, so that after a restart every run is found again
by its id. Decisions (`containers.actions`, `status`, `environment`, `volumes.projection`) are pure
functions; a `PodWorker` per pod observes, decides, acts and reports status, independently of other
pods.
"""
