"""Prometheus and Alertmanager with their tools, from Debian."""

from dataclasses import dataclass
from pathlib import Path

from tools.realparts.part import CachedPart
from tools.realparts.progress import Progress
from tools.realparts.sources.debian import DEBIAN, DebianPackages

COMMANDS = ("prometheus", "promtool", "alertmanager", "amtool")
_PACKAGES = DebianPackages(
    packages=("prometheus", "prometheus-alertmanager"),
    files=(
        "usr/bin/prometheus",
        "usr/bin/promtool",
        "usr/bin/prometheus-alertmanager",
        "usr/bin/amtool",
    ),
)
_ALERTMANAGER = """\
#!/bin/sh
# Debian's Alertmanager reads its templates below /usr/share: unless they are installed, this
# process alone sees those of the package there.
part=$(dirname "$(readlink -f "$0")")
export part
if [ -e /usr/share/prometheus/alertmanager/default.tmpl ]; then
  exec "$part/usr/bin/prometheus-alertmanager" "$@"
fi
[ "$(id -u)" = 0 ] || rights="--user --map-root-user"
exec unshare $rights --mount sh -c '
  mount -t overlay overlay -o "lowerdir=$part/usr/share:/usr/share" /usr/share &&
  exec "$part/usr/bin/prometheus-alertmanager" "$@"' alertmanager "$@"
"""


@dataclass(frozen=True)
class PrometheusPackages:
    """The packages, and each command at the top of the folder."""

    files: tuple[str, ...] = (*COMMANDS, *_PACKAGES.files)

    @property
    def pins(self) -> bytes:
        return _PACKAGES.pins + _ALERTMANAGER.encode()

    def make(self, folder: Path, progress: Progress) -> str | None:
        version = _PACKAGES.make(folder, progress)
        for name in COMMANDS:
            path = folder / name
            path.unlink(missing_ok=True)
            if name == "alertmanager":
                path.write_text(_ALERTMANAGER)
                path.chmod(0o755)
            else:
                path.symlink_to(f"usr/bin/{name}")
        return version


PART = CachedPart("prometheus", DEBIAN, PrometheusPackages())
