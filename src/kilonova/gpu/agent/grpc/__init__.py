"""The gRPC service of a node agent, on port 50052: `agent.proto`."""
