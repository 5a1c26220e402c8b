"""The message when a cluster has started."""

import shlex
from pathlib import Path

import msgspec

from kilonova.cli.up.object_counts import NodeCount
from kilonova.cli.up.options import command_line_for, program_name


class Demo(msgspec.Struct, frozen=True):
    """What there is of the demo: users may delete any of it."""

    gang: bool = False
    """The gang that cannot be scheduled."""
    service: bool = False
    """The inference service."""


NO_DEMO = Demo()


class Welcome(msgspec.Struct, frozen=True):
    """A started cluster. `nodes` is None while they are still registering."""

    url: str
    kubeconfig: str
    data: str
    seconds: float
    console: str | None = None
    """The link to its console, with the access token."""
    nodes: NodeCount | None = None
    demo: Demo = NO_DEMO
    problems: dict[str, str] = {}
    """The problems of degraded components, by the key of their state."""
    simulated: bool = True
    """Whether there are simulated nodes. Without them, pods need a command of this machine."""


def format_welcome(welcome: Welcome, *, detached: bool) -> str:
    """Addresses, kubeconfig, commands to try, and how to stop the cluster."""
    data = Path(welcome.data)
    nodes = welcome.nodes
    if nodes is None:
        title = f"The API answers ({welcome.seconds:.1f} s); nodes are registering."
        count = "not known yet"
    else:
        title = f"The cluster is ready ({welcome.seconds:.1f} s)."
        count = f"{nodes.total} ({nodes.ready} ready)"
    console = [] if welcome.console is None else [f"  console  {welcome.console}"]
    facts = [*console, f"  API      {welcome.url}", f"  nodes    {count}", f"  data     {data}"]
    facts += [f"  degraded {name} {problem}" for name, problem in welcome.problems.items()]
    summary = "\n".join(facts)
    commands = "\n".join(f"  {each}" for each in _suggested_commands(welcome))
    stop = f"`{command_line_for(data, 'down')}` stops it" if detached else "Ctrl-C stops it"
    return f"""{title}

{summary}

  export KUBECONFIG={shlex.quote(welcome.kubeconfig)}

Try, with that variable set:

{commands}

{stop}; the data is kept."""


def _suggested_commands(welcome: Welcome) -> list[str]:
    program = shlex.quote(program_name())
    nodes = "kubectl get nodes -L nvidia.com/gpu.product,kilonova.dev/rack"
    of_demo: list[str] = []
    if welcome.demo.gang:
        of_demo.append(f"{program} why -n demo frontier-0")
    if welcome.demo.service:
        of_demo.append(f"{program} serve bench -n demo assistant --step 20s:2,30s:16,10s:2")
    if of_demo:
        return [nodes, *of_demo, f"{program} top"]
    pod = "kubectl run hello --image=busybox"
    if not welcome.simulated:
        pod += " --command -- sleep 1000"
    return [nodes, pod, f"{program} top"]
