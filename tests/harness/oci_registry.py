"""A real OCI registry on a folder, for tests: open, with users, or with a token server."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.harness.http_probe import fetch
from tests.harness.server_process import ServerProcess, find_free_port

CONFIG = """\
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "{address}"}}
{auth}
"""


@dataclass(frozen=True)
class OciRegistry(AbstractContextManager["OciRegistry"]):
    """A running registry, over plain HTTP on a loopback port."""

    address: str
    blobs: Path
    """What it stores: a file named `data` in a folder named by the digest."""
    process: ServerProcess

    user = "ada"
    password = "open-sesame"
    htpasswd = "ada:$2a$04$abcdefghijklmnopqrstuuXcjcm5avyCiJoD2uS24xa2lb6fjMB3G\n"

    @classmethod
    def start(cls, part: Path, folder: Path, *, auth: str = "") -> "OciRegistry":
        """Serve a folder; `part` is the fixture `oci_registry_part`, `auth` a line of its
        configuration."""
        address = f"127.0.0.1:{find_free_port()}"
        config = folder / "registry.yml"
        blobs = folder / "blobs"
        config.write_text(CONFIG.format(folder=blobs, address=address, auth=auth))
        process = ServerProcess(
            "registry",
            [part / "registry", "serve", config],
            folder / "registry.log",
            {"OTEL_TRACES_EXPORTER": "none"},
        )
        process.wait_until(lambda: is_answering(f"http://{address}/v2/"))
        return cls(address, blobs, process)

    @classmethod
    def start_with_users(cls, part: Path, folder: Path) -> "OciRegistry":
        """One that wants the password of its one user."""
        users = folder / "htpasswd"
        users.write_text(cls.htpasswd)
        return cls.start(part, folder, auth=f"auth: {{htpasswd: {{realm: test, path: {users}}}}}")

    def find_blob(self, digest: str) -> Path:
        """The file of a blob."""
        digits = digest.removeprefix("sha256:")
        [found] = self.blobs.glob(f"**/blobs/sha256/*/{digits}/data")
        return found

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.stop()


def is_answering(url: str) -> bool:
    """Whether the registry answers, if only that it wants credentials."""
    try:
        return fetch(url)[0] in (200, 401)
    except OSError:
        return False
