"""The process node: this machine as a Kubernetes node, its pods as supervised processes.

Words: a *container* is one run of a command, with an id of its own; a restart is another
container. The *keeper* is a small process that starts containers, keeps their output and learns
how they end. It outlives Kilonova, so that a restart finds the containers as they were. The
*kubelet* decides which containers should run, and tells the API how they do. The *pod network*
gives each pod an address of this machine's loopback, without privileges.
"""
