"""Helm as a test calls it: nothing of the user's configuration or home is touched."""

import os
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clients.ground import PATIENCE, Ground

CHART = Path(__file__).parents[2] / "examples" / "chart"


@dataclass(frozen=True)
class Helm:
    """The helm of this environment, on an embedded cluster, in a namespace of its own."""

    ground: Ground
    namespace: str
    home: Path

    def __call__(self, *words: str, fails: bool = False) -> str:
        """What it prints; its complaint where it must fail."""
        done = subprocess.run(
            [Path(sysconfig.get_path("scripts")) / "helm", *words],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.home),
                "KUBECONFIG": str(self.ground.access.kubeconfig),
                "HELM_NAMESPACE": self.namespace,
            },
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout

    def read(self, what: str) -> Any:
        return self.ground.read(what, self.namespace)
