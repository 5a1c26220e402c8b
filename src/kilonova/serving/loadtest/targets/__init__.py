"""Targets: what is sent, and how its answer is read, by protocol.

`connections` speaks HTTP/1.1, `tensors` generates inputs, `selection` builds a target from an
address. gRPC, NumPy and protobuf are imported when a target needs them.
"""
