"""The first process in a node's namespaces: `python -m tests.harness.realnode.init SPEC`."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.harness.realnode.cgroups import ROOT, list_hierarchies
from tests.harness.realnode.configuration import (
    CONTAINERD_SOCKET,
    SYSCTLS,
    build_cni_config,
    build_containerd_config,
    build_kubelet_config,
)
from tests.harness.realnode.network import configure_inside
from tests.harness.realnode.spec import NodeSpec

_OVERLAID = ("/etc", "/opt", "/var/lib", "/var/log")
"""Folders in which the node may create others, which this machine does not get."""
_OWN = (
    *("/etc/cdi", "/etc/cni", "/opt/cni", "/run", "/var/lib/kubelet"),
    *("/var/log/containers", "/var/log/pods"),
)
"""Folders that are the node's own, and that a test finds below `NodeSpec.filesystem`."""
_IMAGES = Path("/var/lib/containerd")
"""In memory: to delete thousands of files of images takes longer than a test."""
_POLL_SECONDS = 0.05


def main() -> None:
    """Set the node up, and run kubelet until somebody ends this process."""
    spec = NodeSpec.read(Path(sys.argv[1]))
    subprocess.run(["hostname", spec.name], check=True)
    mount_cgroups()
    mount_sysctls(spec.folder / "sysctls")
    mount_own_folders(spec)
    while not Path("/sys/class/net/eth0").exists():
        time.sleep(_POLL_SECONDS)
    configure_inside(spec.network)
    write_configuration(spec)
    commands = os.pathsep.join(map(str, spec.commands))
    os.environ["PATH"] = f"{commands}{os.pathsep}{os.environ['PATH']}"
    start(spec, "containerd", "--config", str(spec.folder / "containerd.toml"))
    while not Path(CONTAINERD_SOCKET).exists() or not is_containerd_ready():
        time.sleep(_POLL_SECONDS)
    for archive in spec.images:
        subprocess.run(
            ["ctr", "--namespace", "k8s.io", "images", "import", "--local", str(archive)],
            check=True,
        )
    while not spec.kubeconfig.exists():
        time.sleep(_POLL_SECONDS)
    keep_kubelet_running(spec)


def mount_cgroups() -> None:
    """Every hierarchy, from the group of this node downwards."""
    mount("-t", "sysfs", "sysfs", "/sys")
    mount("-t", "tmpfs", "-o", "mode=755", "cgroups", str(ROOT))
    for controllers in list_hierarchies():
        folder = ROOT / controllers.removeprefix("name=")
        folder.mkdir()
        options = f"none,{controllers}" if controllers.startswith("name=") else controllers
        mount("-t", "cgroup", "-o", options, "cgroup", str(folder))


def mount_sysctls(folder: Path) -> None:
    """Files in place of settings of the machine."""
    folder.mkdir()
    for name, value in SYSCTLS.items():
        file = folder / name.replace("/", ".")
        file.write_text(f"{value}\n")
        mount("--bind", str(file), f"/proc/sys/{name}")


def mount_own_folders(spec: NodeSpec) -> None:
    """Folders of the node in place of this machine's; mounts in them reach containers."""
    for place in _OVERLAID:
        upper, work = (spec.folder / kind / place.strip("/") for kind in ("upper", "work"))
        upper.mkdir(parents=True)
        work.mkdir(parents=True)
        options = f"lowerdir={place},upperdir={upper},workdir={work}"
        mount("-t", "overlay", "-o", options, "overlay", place)
    for place in _OWN:
        own = spec.filesystem / place.lstrip("/")
        own.mkdir(parents=True)
        Path(place).mkdir(exist_ok=True)
        mount("--bind", str(own), place)
    _IMAGES.mkdir(exist_ok=True)
    mount("-t", "tmpfs", "images", str(_IMAGES))
    mount("--make-rshared", "/")
    for place in ("/run/cdi", "/run/netns"):
        Path(place).mkdir()


def write_configuration(spec: NodeSpec) -> None:
    """The files that containerd, kubelet and the CNI plugins read."""
    plugins = Path("/opt/cni/bin")
    plugins.mkdir()
    for plugin in spec.cni_plugins.iterdir():
        shutil.copy(plugin, plugins)
    networks = Path("/etc/cni/net.d")
    networks.mkdir()
    (networks / "10-pods.conflist").write_text(json.dumps(build_cni_config(spec)))
    (spec.folder / "kubelet.json").write_text(json.dumps(build_kubelet_config(spec)))
    runc = next(folder / "runc" for folder in spec.commands if (folder / "runc").exists())
    (spec.folder / "containerd.toml").write_text(build_containerd_config(str(runc)))


def keep_kubelet_running(spec: NodeSpec) -> None:
    """Start kubelet, and again when it ends; collect orphans, which are this process's children."""
    kubelet = 0
    while True:
        if not kubelet:
            kubelet = start(
                spec,
                "kubelet",
                f"--config={spec.folder / 'kubelet.json'}",
                f"--kubeconfig={spec.kubeconfig}",
                f"--hostname-override={spec.name}",
                f"--node-ip={spec.network.node}",
                "--v=2",
            )
        ended, _status = os.wait()
        if ended == kubelet:
            kubelet = 0
            time.sleep(_POLL_SECONDS)


def is_containerd_ready() -> bool:
    """Whether containerd answers."""
    return subprocess.run(["ctr", "version"], capture_output=True, check=False).returncode == 0


def start(spec: NodeSpec, name: str, *arguments: str) -> int:
    """Start a server of the node, with a log in its folder."""
    with (spec.folder / f"{name}.log").open("ab") as log:
        return subprocess.Popen([name, *arguments], stdout=log, stderr=log).pid


def mount(*words: str) -> None:
    """Run `mount`."""
    subprocess.run(["mount", *words], check=True)


if __name__ == "__main__":
    main()
