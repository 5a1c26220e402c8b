"""Spans sent by OTLP over gRPC."""
