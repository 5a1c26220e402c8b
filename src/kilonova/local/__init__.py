"""The embedded cluster: a Kubernetes API on SQLite, with simulated nodes, in one process.

A request flows one way, `app → api → routes → negotiation → registry (schema, admission,
ownership) → storage`, and an event flows back, `storage → watches → presentation`. Built-in
kinds are described in `kinds`, custom ones by their definitions in `customresources`; from
then on they are the same.
"""
