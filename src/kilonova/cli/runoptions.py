"""Options that all parts have in common when they run as processes."""

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
    str | None, typer.Option(metavar="NAME", help="Its context, instead of the current one.")
]
HealthPort = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        max=65535,
        help="Port of /livez, /readyz and /metrics; 0 takes a free one.  [default: 8081]",
    ),
]
LeaderElect = Annotated[
    bool | None,
    typer.Option(
        "--leader-elect/--no-leader-elect",
        help="Let one of several copies write.  [default: leader-elect]",
        show_default=False,
    ),
]
LogFormat = Annotated[
    Literal["json", "text"] | None,
    typer.Option(help="Form of the log.  [default: text on a terminal, else json]"),
]
