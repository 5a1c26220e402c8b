"""Simulated nodes come and go: from the creation of a Node to its deletion.

A Node with the label `kilonova.dev/node-kind: sim` **describes** a machine (`descriptions`): by its
machine type, and by an annotation with what a group of a fleet file may contain. The simulation
**launches** it, if there is capacity (`capacity`); after its boot delay it is ready. An
**interruption** (`interruptions`) is a notice that the machine is taken back, and then it is. The
deletion of the Node ends the machine. Entry point: `controller.NodeLifecycle`.

A fleet creates Nodes in the same way. All state is in the Node, so a new process goes on.
"""
