"""`kilonova doctor`: check this machine and a cluster, and show how to fix what is wrong."""

import typer

from kilonova.component.command.flags import Context, Data, Kubeconfig, Output
from kilonova.component.failure import FAILED


def doctor(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
    output: Output = "table",
) -> None:
    """Check this machine and the cluster for problems.

    Checks this machine, the kubeconfig, permissions, CRDs, webhooks, leader election, nodes and
    clocks, and says how to fix problems. Nothing is written. Works without a cluster too. Exits
    with 1 if there is a problem; warnings do not count.

    \b
    Examples:
      kilonova doctor
      kilonova doctor --context production
      kilonova doctor -o json | jq '.findings[] | select(.level == "problem")'
    """
    import sys

    from kilonova.cli.doctor.checks import DoctorReport, evaluate_facts
    from kilonova.cli.doctor.collector import collect_facts
    from kilonova.cli.doctor.report_text import format_findings
    from kilonova.component.command.output import colours
    from kilonova.component.command.output.formats import encode_as

    findings = evaluate_facts(collect_facts(kubeconfig, context, data))
    healthy = all(each.level != "problem" for each in findings)
    if output == "table":
        coloured = colours.should_use_colour(sys.stdout)
        typer.echo(format_findings(findings, coloured), color=coloured)
    else:
        typer.echo(encode_as(DoctorReport(healthy, findings), output))
    if not healthy:
        raise typer.Exit(FAILED)
