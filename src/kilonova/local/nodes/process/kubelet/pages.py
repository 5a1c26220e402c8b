"""Pages of containers, as probes and hooks ask for them."""

import os
from collections.abc import Mapping
from urllib.parse import urljoin, urlsplit

_MOST_REDIRECTS = 10


class PageFailed(Exception):
    """No page came; `dialled` says why in Kubernetes' words."""

    def __init__(self, message: str, dialled: str) -> None:
        super().__init__(message)
        self.dialled = dialled


async def fetch_page(url: str, headers: Mapping[str, str], most: int) -> tuple[int, str]:
    """Status and the first bytes of a page; redirects are followed while they stay on the host.

    Raises `PageFailed`, and `TimeoutError` as it comes.
    """
    import aiohttp  # as long as no container wants it, a cluster starts without

    host = urlsplit(url).hostname
    connector = aiohttp.TCPConnector(ssl=False, force_close=True)
    try:
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:
            for _ in range(_MOST_REDIRECTS):
                async with session.get(url, headers=headers, allow_redirects=False) as reply:
                    body = await reply.content.read(most)
                    place = reply.headers.get("Location")
                    following = urljoin(url, place) if place and 300 <= reply.status < 400 else ""
                    if not following or urlsplit(following).hostname != host:
                        return reply.status, body.decode(errors="replace")
                url = following
    except TimeoutError:
        raise
    except aiohttp.ClientConnectorError as error:
        refused = f"dial tcp {urlsplit(url).netloc}: connect: {errno_text(error.os_error)}"
        raise PageFailed(str(error), refused) from error
    except (aiohttp.ClientError, OSError) as error:
        raise PageFailed(str(error), str(error) or type(error).__name__) from error
    stopped = f"stopped after {_MOST_REDIRECTS} redirects"
    raise PageFailed(stopped, stopped)


def errno_text(error: OSError) -> str:
    """What the system says of an error, as Go writes it."""
    return os.strerror(error.errno).lower() if error.errno else str(error)
