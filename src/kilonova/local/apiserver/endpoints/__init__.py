"""Resource endpoints, as k8s.io/apiserver/pkg/endpoints.

`request_info` parses the request line, once; `resource_target` finds the served kind, `negotiation`
the media type; `ResourceHandler` runs the verb, `SubresourceHandlers` the subresources; `responses`
encodes objects, lists, tables and watches. `discovery` describes the served kinds.
"""
