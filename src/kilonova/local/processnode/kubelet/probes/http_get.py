"""HTTP GET requests of probes and hooks."""

import os
from collections.abc import Mapping
from urllib.parse import urljoin, urlsplit

_MAX_REDIRECTS = 10


class HttpGetError(Exception):
    """No response; `probe_message` is the cause in Kubernetes' words."""

    def __init__(self, message: str, probe_message: str) -> None:
        super().__init__(message)
        self.probe_message = probe_message


async def http_get(url: str, headers: Mapping[str, str], max_bytes: int) -> tuple[int, str]:
    """Status code and the first bytes of the body; follows redirects on the same host.

    Raises `HttpGetError` or `TimeoutError`.
    """
    import aiohttp  # imported on first use: a cluster without HTTP probes starts faster

    host = urlsplit(url).hostname
    connector = aiohttp.TCPConnector(ssl=False, force_close=True)
    try:
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
            for _ in range(_MAX_REDIRECTS):
                async with session.get(url, headers=headers, allow_redirects=False) as reply:
                    body = await reply.content.read(max_bytes)
                    location = reply.headers.get("Location")
                    following = (
                        urljoin(url, location) if location and 300 <= reply.status < 400 else ""
                    )
                    if not following or urlsplit(following).hostname != host:
                        return reply.status, body.decode(errors="replace")
                url = following
    except TimeoutError:
        raise
    except aiohttp.ClientConnectorError as error:
        refused = f"dial tcp {urlsplit(url).netloc}: connect: {describe_errno(error.os_error)}"
        raise HttpGetError(str(error), refused) from error
    except (aiohttp.ClientError, OSError) as error:
        raise HttpGetError(str(error), str(error) or type(error).__name__) from error
    stopped = f"stopped after {_MAX_REDIRECTS} redirects"
    raise HttpGetError(stopped, stopped)


def describe_errno(error: OSError) -> str:
    """The text of an error number as Go prints it."""
    return os.strerror(error.errno).lower() if error.errno else str(error)
