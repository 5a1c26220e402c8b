"""The node agent: publishes the GPUs of a node, and makes what the scheduler assigned to pods.

It follows its Node and the pods of the node, measures the devices, and reconciles: `desire` says,
purely, which labels, annotations, resources, conditions and taints the Node should have and which
MIG instances should exist; `node_writer` writes what differs, and the MIG engine (`mig_control`)
makes the instances. `remediation` drains, resets and observes devices that fail, `verification`
compares the devices that processes use with those that were assigned, `telemetry` measures.

A node is **claimed** by the annotation `gpu.kilonova.dev/agent`: its agent alone publishes its
GPUs. `local_agent.LocalAgent` is the agent of one machine (`kilonova run agent`), `simulated` runs
those of all simulated nodes of `kilonova up`, over shared caches.
"""
