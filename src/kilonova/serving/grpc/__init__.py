"""The messages and stubs of KServe's v2 protocol over gRPC, with Triton's extensions.

`inference.proto` states the protocol with the names and numbers on the wire that KServe and Triton
publish, so that `tritonclient`, perf_analyzer and gRPC's own tools talk to ours. The rest is
generated from it (`docs/internals/grpc.md`). Import the modules where they are needed: messages
load protobuf, stubs load gRPC.
"""
