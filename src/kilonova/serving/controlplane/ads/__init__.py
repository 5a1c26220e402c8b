"""ADS, the aggregated discovery service of Envoy, in its variant "state of the world".

A gateway opens one stream, and subscribes on it to types of resources: clusters, endpoints,
secrets, listeners, routes. `snapshot` is what a service has of them, `stream` the state of one
stream (pure), `connections` all streams, `service` serves them.
"""
