"""What the user is told when a cluster is up."""

import shlex
from pathlib import Path

import msgspec

from kilonova.cli.census import NodeCount
from kilonova.cli.options import command_on, program


class Welcome(msgspec.Struct, frozen=True):
    """A cluster that is up. `nodes` is None while they are still registering."""

    url: str
    kubeconfig: str
    data: str
    seconds: float
    console: str | None = None
    """The link to its web page, token included."""
    nodes: NodeCount | None = None
    demo: bool = False
    """Whether the demo is there."""
    simulated: bool = True
    """Whether there are simulated nodes. Without them pods need a command of this machine."""


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
    console = [] if welcome.console is None else [f"  console  {welcome.console}"]
    places = [*console, f"  API      {welcome.url}", f"  nodes    {count}", f"  data     {data}"]
    where = "\n".join(places)
    tries = "\n".join(f"  {each}" for each in _tries(welcome))
    end = f"`{command_on(data, 'down')}` stops it" if detached else "Ctrl-C stops it"
    return f"""{title}

{where}

  export KUBECONFIG={shlex.quote(welcome.kubeconfig)}

Try, with that variable set:

{tries}

{end}; the data stays."""


def _tries(welcome: Welcome) -> list[str]:
    typed = shlex.quote(program())
    first = "kubectl get nodes -L nvidia.com/gpu.product,kilonova.dev/rack"
    if welcome.demo:
        return [first, f"{typed} why -n demo frontier-0", f"{typed} top"]
    hello = "kubectl run hello --image=busybox"
    if not welcome.simulated:
        hello += " --command -- sleep 1000"
    return [first, hello, f"{typed} top"]
