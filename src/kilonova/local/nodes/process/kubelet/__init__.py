"""The kubelet of the process node: pods that run as processes of this machine.

A *run* is one attempt to run a container; a container's *history* is its last two. The runtime
(the keeper) holds processes and outlives the kubelet, so that after a restart every run is found
again by its id. What is decided (`sequence`, `podstatus`, `environment`, `payloads`) is a function
of values; a *worker* for each pod looks, decides, acts and tells, and minds no other pod.
"""
