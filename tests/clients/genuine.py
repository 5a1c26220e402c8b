"""Kubernetes' own kube-scheduler and kube-controller-manager, on the embedded API."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.harness.access import Access
from tests.harness.controlplane import HOW_TO_GET, binaries, is_healthy
from tests.harness.process import ServerProcess, free_port


def acting_as(user: str, access: Access, path: Path) -> Path:
    """A kubeconfig of the administrator with which one acts as somebody with fewer rights."""
    config = yaml.safe_load(access.kubeconfig.read_text())
    for entry in config["users"]:
        entry["user"]["as"] = user
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    return path


@contextmanager
def kube_scheduler(access: Access, folder: Path) -> Generator[ServerProcess]:
    """It runs as the user that it has in every cluster, and stands for election."""
    kubeconfig = acting_as("system:kube-scheduler", access, folder / "scheduler.kubeconfig")
    config = folder / "scheduler.json"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000},
                "leaderElection": {"leaderElect": True},
            }
        )
    )
    with _running("kube-scheduler", folder, f"--config={config}") as process:
        yield process


@contextmanager
def kube_controller_manager(
    access: Access, folder: Path, *options: str
) -> Generator[ServerProcess]:
    """Each of its controllers has an account of its own, and a token that it asks for."""
    user = "system:kube-controller-manager"
    kubeconfig = acting_as(user, access, folder / "controller-manager.kubeconfig")
    with _running(
        "kube-controller-manager",
        folder,
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--root-ca-file={access.ca_file}",
        "--use-service-account-credentials",
        "--node-monitor-grace-period=1h",  # heartbeats come late when the machine is busy
        "--kube-api-qps=5000",
        "--kube-api-burst=5000",
        *options,
    ) as process:
        yield process


_SAID_ANYWHERE = (
    "The manifest file is empty, ignoring.",  # no file of static configuration was given
)


def complaints(process: ServerProcess, *explained: str) -> list[str]:
    """The errors in its log, but for those that hold one of the texts."""
    known = (*_SAID_ANYWHERE, *explained)
    lines = process.log.read_text(errors="replace").splitlines()
    errors = [line for line in lines if line[:1] in ("E", "F") and line[1:5].isdigit()]
    return [line for line in errors if not any(text in line for text in known)]


@contextmanager
def _running(name: str, folder: Path, *options: str) -> Generator[ServerProcess]:
    commands = binaries()
    assert commands is not None, HOW_TO_GET
    port = free_port()
    own = ["--bind-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={folder}"]
    log = folder / f"{name}.log"
    process = ServerProcess(name, [commands / name, *own, *options], log)
    try:
        process.wait_until(lambda: is_healthy(port))
        yield process
    finally:
        process.stop()
