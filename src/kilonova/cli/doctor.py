"""`kilonova doctor`: what is in the way of Kilonova here, and what to do about it."""

from typing import TYPE_CHECKING

import typer

from kilonova.cli.failure import FAILED
from kilonova.cli.lookoptions import Context, Data, Kubeconfig, Output

if TYPE_CHECKING:
    from kilonova.cli.doctorfinding import Finding


def doctor(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
    output: Output = "table",
) -> None:
    """Look for what is in the way, and say what to do.

    Looked at are this machine, access, rights, kinds, webhooks, leaders and clocks. Every line says
    how it is, and where something is wrong, what to do. Nothing is written anywhere. Works without
    a cluster too. Exits with 1 when there is a problem; warnings are none.

    \b
    Examples:
      kilonova doctor
      kilonova doctor --context production
      kilonova doctor -o json | jq '.findings[] | select(.level == "problem")'
    """
    import sys

    from kilonova.cli import colours
    from kilonova.cli.doctorchecks import Report, findings
    from kilonova.cli.doctorgather import gather
    from kilonova.cli.tables import in_form

    found = findings(gather(kubeconfig, context, data))
    healthy = all(each.level != "problem" for each in found)
    if output == "table":
        coloured = colours.wanted(sys.stdout)
        typer.echo(finding_lines(found, coloured), color=coloured)
    else:
        typer.echo(in_form(Report(healthy, found), output))
    if not healthy:
        raise typer.Exit(FAILED)


def finding_lines(found: "list[Finding]", coloured: bool) -> str:
    """For people: `warning  kubectl: is not on the PATH → install it`."""
    from kilonova.cli.colours import of_state, painted
    from kilonova.cli.screen import tamed

    lines: list[str] = []
    for each in found:
        level = f"{each.level:<8}"
        fix = f" → {each.fix}" if each.fix else ""
        head = painted(level, of_state(each.level)) if coloured else level
        lines.append(f"{head} {tamed(f'{each.what}: {each.found}{fix}')}")
    return "\n".join(lines)
