"""The objects of an InferenceService. Pure: from the service and settings to JSON.

`identity` has what all of them share. Servers are a PodCliqueSet (`server_set`) of pods that their
runtime describes (`runtimes`, `server_pods`); `gateway_pods`, `gateway_secret` and `access` are the
gateway and how clients reach it; `monitoring` is for Prometheus and Grafana.
"""
