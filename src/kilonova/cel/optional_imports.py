"""What the CEL runtime would import if it could."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from threading import RLock

PROTOBUF_IMPORT = RLock()
"""Held while protobuf is kept out, and by those who import it in a thread: elsewhere it would seem
not to be installed."""


@contextmanager
def without_protobuf() -> Generator[None]:
    """Keep the runtime from loading protobuf while it makes an environment.

    It does so where protobuf is installed, to accept messages as values, of which we have none:
    that would take 5 MB and a tenth of a second.
    """
    with PROTOBUF_IMPORT:
        if "google.protobuf" in sys.modules:
            yield
            return
        sys.modules["google.protobuf"] = None  # type: ignore[assignment]  # the import fails
        try:
            yield
        finally:
            del sys.modules["google.protobuf"]
