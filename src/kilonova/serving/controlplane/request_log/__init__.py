"""The slowest and the failed of the traced requests, for the status of their service.

Gateways send a message for each request that is traced (Envoy's access log over gRPC), and for no
other: without tracing there is none. `recent` keeps the worst of each minute, `writer` merges them
into `status.traces`. Every replica of the control plane writes those of the gateways that are
connected to it.
"""
