"""Kubernetes' own kube-scheduler and kube-controller-manager, on the embedded API."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.harness.access import ServerAccess
from tests.harness.control_plane import MISSING_BINARIES_MESSAGE, find_binaries, is_healthy
from tests.harness.server_process import ServerProcess, find_free_port


def write_impersonating_kubeconfig(user: str, access: ServerAccess, path: Path) -> Path:
    """A kubeconfig of the administrator that impersonates a user with fewer permissions."""
    config = yaml.safe_load(access.kubeconfig.read_text())
    for entry in config["users"]:
        entry["user"]["as"] = user
    path.touch(mode=0o600)
    path.write_text(json.dumps(config))
    return path


@contextmanager
def kube_scheduler(access: ServerAccess, folder: Path) -> Generator[ServerProcess]:
    """Runs as its default user, with leader election."""
    kubeconfig = write_impersonating_kubeconfig(
        "system:kube-scheduler", access, folder / "scheduler.kubeconfig"
    )
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
    with _run_component("kube-scheduler", folder, f"--config={config}") as process:
        yield process


@contextmanager
def kube_controller_manager(
    access: ServerAccess, folder: Path, *options: str
) -> Generator[ServerProcess]:
    """Each controller has its own service account, with a requested token."""
    user = "system:kube-controller-manager"
    kubeconfig = write_impersonating_kubeconfig(
        user, access, folder / "controller-manager.kubeconfig"
    )
    with _run_component(
        "kube-controller-manager",
        folder,
        f"--kubeconfig={kubeconfig}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--root-ca-file={access.ca_file}",
        "--use-service-account-credentials",
        "--node-monitor-grace-period=1h",  # heartbeats are late when the machine is busy
        "--kube-api-qps=5000",
        "--kube-api-burst=5000",
        *options,
    ) as process:
        yield process


_EXPECTED_ERRORS = (
    "The manifest file is empty, ignoring.",  # no static configuration file was given
)


def list_log_errors(process: ServerProcess, *explained: str) -> list[str]:
    """The errors in its log, except those that contain one of the texts."""
    known = (*_EXPECTED_ERRORS, *explained)
    lines = process.log.read_text(errors="replace").splitlines()
    errors = [line for line in lines if line[:1] in ("E", "F") and line[1:5].isdigit()]
    return [line for line in errors if not any(text in line for text in known)]


@contextmanager
def _run_component(name: str, folder: Path, *options: str) -> Generator[ServerProcess]:
    commands = find_binaries()
    assert commands is not None, MISSING_BINARIES_MESSAGE
    port = find_free_port()
    own = ["--bind-address=127.0.0.1", f"--secure-port={port}", f"--cert-dir={folder}"]
    log = folder / f"{name}.log"
    process = ServerProcess(name, [commands / name, *own, *options], log)
    try:
        process.wait_until(lambda: is_healthy(port))
        yield process
    finally:
        process.stop()
