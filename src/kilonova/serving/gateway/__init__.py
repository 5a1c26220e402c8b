"""The gateway: from an InferenceService and its pods to Envoy's configuration.

- `model` specifies what a gateway is configured from: the service and a `GatewayState`.
- `config` is pure: it renders Envoy's listeners, routes, clusters and endpoints.
- `controlplane` serves them over ADS, holds requests, and answers for the whole service.
"""
