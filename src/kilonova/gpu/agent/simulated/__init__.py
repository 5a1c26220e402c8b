"""Agents of simulated nodes, all in one process: of `kilonova up`.

They share one cache of Nodes and one of pods. The devices of a node are simulated only from when
something happens to them: a MIG instance is assigned, a fault occurs, a client reads their
telemetry. Until then the node is as its machine has published it.
"""
