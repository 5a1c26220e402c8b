"""`kubectl kilonova`: the same commands as a plugin of a real kubectl."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command import CompletedCommand, Kilonova
from tests.conftest import Api
from tests.harness.console_scripts import write_console_scripts

Run = Callable[..., CompletedCommand]


@pytest.fixture
def kubectl_with_plugin(kubectl_path: Path, kilonova: Kilonova) -> Run:
    """kubectl with the scripts of the package on its PATH, as pip installs them."""
    folder = write_console_scripts(kilonova.home / "bin")
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"

    def run(*words: str, kubeconfig: Path | None = None) -> CompletedCommand:
        environment = kilonova.environment() | {"PATH": path}
        if kubeconfig is not None:
            environment["KUBECONFIG"] = str(kubeconfig)
        done = subprocess.run(
            [kubectl_path, *words],
            env=environment,
            cwd=kilonova.home,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return CompletedCommand(done.returncode, done.stdout, done.stderr)

    return run


def test_kubectl_finds_the_plugin(kubectl_with_plugin: Run):
    assert "kubectl-kilonova" in kubectl_with_plugin("plugin", "list").out


def test_help_shows_the_plugin_command(kubectl_with_plugin: Run):
    done = kubectl_with_plugin("kilonova", "why", "--help")
    assert done.code == 0, done.err
    assert done.out.startswith("Usage: kubectl kilonova why ")
    assert "    kubectl kilonova why trainer-0" in done.out
    wrong = kubectl_with_plugin("kilonova", "sideways")
    assert wrong.code == 2
    assert wrong.err.startswith("Usage: kubectl kilonova ")


def test_fit_is_a_plugin_of_its_own(kubectl_with_plugin: Run):
    assert "kubectl-fit" in kubectl_with_plugin("plugin", "list").out
    done = kubectl_with_plugin("fit", "--help")
    assert done.code == 0, done.err
    assert done.out.startswith("Usage: kubectl fit [OPTIONS]")
    assert "    kubectl fit zone-a --level node" in done.out
    assert "--strategy" in kubectl_with_plugin("__complete", "fit", "--str").out.split()


def test_commands_run_on_the_cluster_of_kubectl(kubectl_with_plugin: Run, api: Api):
    config = api.access.kubeconfig
    listed = kubectl_with_plugin("kilonova", "nodes", "-o", "json", kubeconfig=config)
    assert (listed.code, listed.out[:1]) == (0, "["), listed.err
    missing = kubectl_with_plugin(
        "kilonova", "why", "nobody", "-n", api.namespace, kubeconfig=config
    )
    assert missing.code == 1
    assert f"no pod or gang 'nobody' in namespace {api.namespace}" in missing.err


def test_kubectl_completes_commands_and_names(kubectl_with_plugin: Run, api: Api):
    assert "nodes" in kubectl_with_plugin("__complete", "kilonova", "n").out.split()
    words = ("__complete", "kilonova", "gangs", "-n", api.namespace[:4])
    offered = kubectl_with_plugin(*words, kubeconfig=api.access.kubeconfig)
    assert api.namespace in offered.out.split()
