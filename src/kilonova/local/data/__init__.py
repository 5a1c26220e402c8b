"""Generated tables: built-in kinds, their schemas and descriptions. See `tools/`."""

import gzip
from importlib.resources import files


def table(name: str) -> bytes:
    """The contents of a table, uncompressed. Not cached: callers keep what they make of it."""
    content = files(__name__).joinpath(name).read_bytes()
    return gzip.decompress(content) if name.endswith(".gz") else content
