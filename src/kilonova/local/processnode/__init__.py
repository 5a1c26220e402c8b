"""The process node: this machine as a Kubernetes node, its pods as supervised processes.

A *container* is one run of a command, with an id of its own; a restart is another container. The
*runtime shim* (`shim`) is a small process that starts containers, writes their logs and records how
they end. It outlives Kilonova, so that after a restart the containers are found running. The
*kubelet* decides which containers should run and reports their status to the API. The *pod network*
gives each pod an address on this machine's loopback, without privileges. Entry point:
`kubelet.assembly`.
"""
