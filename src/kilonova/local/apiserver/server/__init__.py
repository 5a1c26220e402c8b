"""The HTTP server of the API, as k8s.io/apiserver/pkg/server.

`AsgiApp` is the ASGI application, which an `HttpServer` (`kube.serving`) serves on `ApiConnection`s
with `API_SERVER_OPTIONS`; `ApiHandler` handles requests of HTTP and in-process clients alike.
`NonResourceHandler` serves /version, health checks, discovery, OpenAPI and metrics.
"""
