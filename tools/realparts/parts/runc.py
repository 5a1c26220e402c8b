"""runc, which starts the containers of the real node: static, with seccomp.

It is written in C in part, so a C compiler is needed; headers and library of libseccomp come from
Debian's package, unpacked.
"""

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from tools.realparts.part import CachedPart, PartUnavailable
from tools.realparts.progress import Progress
from tools.realparts.sources.debian import unpack_packages
from tools.realparts.sources.go_modules import GoModules

_VERSION = "v1.4.2"
_MODULE = "github.com/opencontainers/runc"
_GO = GoModules(
    lock="runc",
    commands={"runc": _MODULE},
    linker_flags=f"-linkmode external -extldflags -static -X main.version={_VERSION}",
    tags="seccomp netgo osusergo",
)
_PKG_CONFIG = """\
#!/bin/sh
# Answers every question about libseccomp by the flags of the unpacked package.
case " $* " in
*" --cflags "*) echo "-I{headers}" ;;
*" --libs "*) echo "-L{library} -lseccomp" ;;
esac
"""


@dataclass(frozen=True)
class StaticRunc:
    """The build with the library of Debian."""

    pins: bytes = _GO.pins
    files: tuple[str, ...] = _GO.files

    def make(self, folder: Path, progress: Progress) -> str | None:
        if shutil.which("cc") is None:
            raise PartUnavailable("a C compiler is needed, and there is no `cc` on the PATH")
        library = folder / ".libseccomp"
        library.mkdir(exist_ok=True)
        with progress.step("unpacking libseccomp-dev"):
            unpack_packages(("libseccomp-dev",), library)
        script = folder / ".pkg-config"
        archive = next(library.glob("usr/lib/**/libseccomp.a"))
        script.write_text(
            _PKG_CONFIG.format(headers=library / "usr/include", library=archive.parent)
        )
        script.chmod(0o755)
        environment = {"CGO_ENABLED": "1", "PKG_CONFIG": str(script)}
        replace(_GO, environment=environment).make(folder, progress)
        script.unlink()
        shutil.rmtree(library)


PART = CachedPart("runc", _VERSION, StaticRunc())
