"""Files of Debian's packages, unpacked and not installed."""

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tools.realparts.part import PartUnavailable, cache_folder
from tools.realparts.progress import Progress
from tools.realparts.sources.processes import run_command

DEBIAN = "debian"
"""The version of a part that this release of Debian determines."""


@dataclass(frozen=True)
class DebianPackages:
    """Packages of this release; `files` are those that the part is for.

    Debian keeps only the latest version of a package in a release: the version is that of the first
    package, recorded when it was unpacked.
    """

    packages: tuple[str, ...]
    files: tuple[str, ...]

    @property
    def pins(self) -> bytes:
        return "\n".join((_read_release(), *self.packages)).encode()

    def make(self, folder: Path, progress: Progress) -> str | None:
        with progress.step(f"unpacking {', '.join(self.packages)}"):
            return unpack_packages(self.packages, folder)


def unpack_packages(packages: tuple[str, ...], folder: Path) -> str:
    """Unpack packages into a folder, without root's permissions; the version of the first one."""
    downloads = folder / ".packages"
    shutil.rmtree(downloads, ignore_errors=True)
    downloads.mkdir()
    update_package_lists()
    run_command(["apt-get", *_list_apt_options(), "download", *packages], cwd=downloads)
    for archive in sorted(downloads.glob("*.deb")):
        run_command(["dpkg-deb", "--extract", archive, folder])
    version = _read_version(next(downloads.glob(f"{packages[0]}_*.deb")))
    shutil.rmtree(downloads)
    return version


@cache
def update_package_lists() -> None:
    """Read the lists of packages, once in this run, beside those of the system."""
    if shutil.which("apt-get") is None:
        raise PartUnavailable("it comes from Debian's packages, and there is no `apt-get` here")
    state = cache_folder() / "apt"
    for path in (state / "state" / "lists" / "partial", state / "cache" / "archives" / "partial"):
        path.mkdir(parents=True, exist_ok=True)
    run_command(["apt-get", *_list_apt_options(), "update", "--quiet=2"])


def _list_apt_options() -> list[str]:
    state = cache_folder() / "apt"
    options = {
        "Dir::State": state / "state",
        "Dir::State::status": "/var/lib/dpkg/status",
        "Dir::Cache": state / "cache",
        # Otherwise root's downloads are made by a user who may not enter the folder.
        "APT::Sandbox::User": "root" if os.geteuid() == 0 else "",
    }
    return [word for key, value in options.items() for word in ("-o", f"{key}={value}")]


def _read_release() -> str:
    try:
        lines = Path("/etc/os-release").read_text().splitlines()
    except OSError:
        return ""
    return next((line for line in lines if line.startswith("VERSION_CODENAME=")), "")


def _read_version(archive: Path) -> str:
    words = ["dpkg-deb", "--field", str(archive), "Version"]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
