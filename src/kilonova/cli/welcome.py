"""What the user is told when a cluster is up."""

import shlex
from pathlib import Path

import msgspec

from kilonova.cli.census import NodeCount
from kilonova.cli.options import command_on


class Welcome(msgspec.Struct, frozen=True):
    """A cluster that is up. `nodes` is None while they are still registering."""

    url: str
    kubeconfig: str
    data: str
    seconds: float
    nodes: NodeCount | None = None


def welcome_text(welcome: Welcome, *, detached: bool) -> str:
    """Where it is, how to use it, what to try first, and how it ends."""
    data = Path(welcome.data)
    nodes = welcome.nodes
    if nodes is None:
        title = f"The cluster answers ({welcome.seconds:.1f} s); its nodes are registering."
        count = "not counted yet"
    else:
        title = f"The cluster is ready ({welcome.seconds:.1f} s)."
        count = f"{nodes.total} ({nodes.ready} ready)"
    end = f"`{command_on(data, 'down')}` stops it" if detached else "Ctrl-C stops it"
    return f"""{title}

  API    {welcome.url}
  nodes  {count}
  data   {data}

  export KUBECONFIG={shlex.quote(welcome.kubeconfig)}

Try, with that variable set:

  kubectl get nodes
  kubectl run hello --image=busybox
  {command_on(data, "status")}

{end}; the data stays."""
