"""The message when several clusters have started."""

import shlex

from kilonova.cli.up.clusters.start import StartedClusters
from kilonova.cli.up.options import command_line_for, program_name
from kilonova.component.command.output.formats import format_table, pluralize


def format_started(started: StartedClusters, *, detached: bool) -> str:
    """The clusters with their addresses, commands to try, and how to stop them."""
    directory = started.directory
    header = ("CLUSTER", "REGION", "NODES", "API", "CONSOLE")
    rows = [
        (
            each.name,
            each.region,
            "-" if welcome.nodes is None else str(welcome.nodes.total),
            welcome.url,
            welcome.console or "off",
        )
        for each in directory.clusters
        if (welcome := started.started.get(each.name)) is not None
    ]
    seconds = max(each.seconds for each in started.started.values())
    others = f"\nRunning already: {', '.join(started.running)}." if started.running else ""
    degraded = "".join(
        f"\ndegraded: {name}: {part} {problem}"
        for name, welcome in started.started.items()
        for part, problem in welcome.problems.items()
    )
    program = shlex.quote(program_name())
    second = directory.clusters[1].name
    stop = (
        f"`{command_line_for(directory.path, 'down')}` stops them"
        if detached
        else ("Ctrl-C stops them")
    )
    count = pluralize(len(rows), "cluster")
    verb = "is" if len(rows) == 1 else "are"
    return f"""{count} {verb} ready ({seconds:.1f} s).{others}{degraded}

{format_table(header, rows)}

  export KUBECONFIG={shlex.quote(str(directory.kubeconfig))}

Try, with that variable set:

  {program} fleet clusters
  kubectl --context {second} get nodes
  {program} status

{stop}; the data is kept."""
