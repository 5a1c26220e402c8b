"""The topology service over gRPC."""
