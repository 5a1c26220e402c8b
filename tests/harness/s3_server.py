"""A real S3 server on a folder, for tests.

    with S3Server.start(s3_server_part, folder) as server:
        server.create_bucket("models")

It serves path-style addresses over plain HTTP on a loopback port. A bucket is a folder, an object a
file in it.
"""

import os
import socket
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.harness.server_process import ServerProcess, find_free_port


@dataclass(frozen=True)
class S3Server(AbstractContextManager["S3Server"]):
    """A running server and its administrator's credentials."""

    url: str
    folder: Path
    process: ServerProcess
    access_key: str = "test-access"
    secret_key: str = "test-secret"
    region: str = "us-east-1"

    @classmethod
    def start(cls, part: Path, folder: Path) -> "S3Server":
        """Serve an empty or a former folder; `part` is the fixture `s3_server_part`."""
        port = find_free_port()
        buckets = folder / "buckets"
        buckets.mkdir(parents=True, exist_ok=True)
        process = ServerProcess(
            "versitygw",
            [part / "versitygw", "--quiet", "--port", f"127.0.0.1:{port}", "posix", buckets],
            folder / "server.log",
            {
                **os.environ,
                "ROOT_ACCESS_KEY_ID": cls.access_key,
                "ROOT_SECRET_ACCESS_KEY": cls.secret_key,
                "VGW_REGION": cls.region,
            },
        )
        process.wait_until(lambda: is_listening(port))
        return cls(f"http://127.0.0.1:{port}", buckets, process)

    def create_bucket(self, name: str) -> None:
        """Create a bucket that is not versioned; names have three characters or more."""
        (self.folder / name).mkdir()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.stop()


def is_listening(port: int) -> bool:
    """Whether a server accepts connections on a loopback port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
