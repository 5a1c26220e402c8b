"""Flags that all commands of `kilonova run` share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Kubeconfig of the cluster.  [default: KUBECONFIG, else ~/.kube/config, else the "
        "pod's ServiceAccount]",
        dir_okay=False,
    ),
]
Context = Annotated[
    str | None, typer.Option(metavar="NAME", help="Context, instead of the current one.")
]
HealthPort = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        max=65535,
        help="Port of /livez, /readyz and /metrics; 0 for any free.  [default: 8081]",
    ),
]
LeaderElect = Annotated[
    bool | None,
    typer.Option(
        "--leader-elect/--no-leader-elect",
        help="Elect a leader among replicas; only the leader writes.  [default: leader-elect]",
        show_default=False,
    ),
]
LogFormat = Annotated[
    Literal["json", "text"] | None,
    typer.Option(help="Log format.  [default: text on a terminal, else json]"),
]
