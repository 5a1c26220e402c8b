"""Helm for tests, isolated from the user's configuration and home."""

import os
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clients.client_cluster import TIMEOUT_SECONDS, ClientCluster

CHART = Path(__file__).parents[2] / "examples" / "chart"


@dataclass(frozen=True)
class Helm:
    """The helm of this environment, on an embedded cluster, in its own namespace."""

    cluster: ClientCluster
    namespace: str
    home: Path

    def __call__(self, *words: str, fails: bool = False) -> str:
        """The output, or the error message where the command must fail."""
        done = subprocess.run(
            [Path(sysconfig.get_path("scripts")) / "helm", *words],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "KUBECONFIG": str(self.cluster.access.kubeconfig),
                "HELM_NAMESPACE": self.namespace,
            },
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout

    def get_json(self, what: str) -> Any:
        return self.cluster.get_json(what, self.namespace)
