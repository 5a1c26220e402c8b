"""HTTP serving: one shell for the embedded API server, the console, webhooks, the extender and the
ports of health checks and metrics.

From the socket up:

- `HttpServer` runs uvicorn on a socket: TLS with a live certificate, graceful stop, keep-alive.
- A `BoundedConnection` limits the head of a request in time and size, and reports whether the
  client reads its response.
- `asgi` reads a request: `read_body` within `BodyLimits`, headers, query.
- A `ResponseWriter` sends a `Reply`, or a `StreamReply` as fast as the client reads;
  `PendingWrites` disconnects clients that do not read. `OpenStreams` ends streams when their client
  disconnects or the server stops.
- `WebServer` is an application of these for simple servers: `Routes` with a handler for each path,
  one format of errors (`ErrorReply`), common headers. The API server has its own application
  (`local.apiserver.server.AsgiApp`), for what only it does: authentication before the body is read,
  watches, upgraded connections, proxies.

Beside them: `health` (checks, in the format of Kubernetes) and `health_server`; `certificates` (a
CA), `certificate_sources` (where a serving certificate comes from) and `certificate_watcher` (which
reloads it).
"""
