"""The chart `deploy/helm/supersonic`, rendered by the helm of this environment."""

import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[3] / "deploy" / "helm" / "supersonic"
EXAMPLES = sorted(
    (Path(__file__).parents[3] / "examples" / "serving" / "supersonic").glob("*.yaml")
)
RELEASE, NAMESPACE = "sonic", "cms"


class HelmFailed(Exception):
    """The message of a command that failed."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def run_helm(home: Path, *words: str, kubeconfig: Path | None = None) -> str:
    """The output; `HelmFailed` with the message if it fails."""
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    if kubeconfig is not None:
        environment["KUBECONFIG"] = str(kubeconfig)
    done = subprocess.run(
        [Path(sysconfig.get_path("scripts")) / "helm", *words],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        raise HelmFailed(done.stderr)
    return done.stdout


def render(
    home: Path, *words: str, release: str = RELEASE, namespace: str = NAMESPACE
) -> dict[tuple[str, str], Any]:
    """The manifests of the chart, by kind and name."""
    text = run_helm(home, "template", release, str(CHART), "--namespace", namespace, *words)
    found = [each for each in yaml.safe_load_all(text) if each]
    manifests = {(each["kind"], each["metadata"]["name"]): each for each in found}
    assert len(manifests) == len(found)
    return manifests
