"""moto's S3 server, one request at a time: its conditional writes are not atomic in threads."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from io import BytesIO
from typing import Any


class SerializedApp:
    """A WSGI application that handles one request after the other. Requests are read before they
    wait, so that a slow client holds up no other."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> list[bytes]:
        if environ.get("wsgi.input_terminated"):
            body = environ["wsgi.input"].read()
        else:
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
        with self._lock:
            response = self._app(environ, start_response)
            try:
                return list(response)
            finally:
                if hasattr(response, "close"):
                    response.close()


@contextmanager
def run_moto_server() -> Generator[str]:
    """The URL of a server in threads of this process."""
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    app = SerializedApp(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
