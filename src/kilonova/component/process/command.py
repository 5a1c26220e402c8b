"""The command `kilonova run NAME` of a component that needs no flags of its own."""

from collections.abc import Callable
from typing import Annotated

import typer

from kilonova.component.process.flags import (
    Context,
    HealthPort,
    Kubeconfig,
    LeaderElect,
    LogFormat,
)
from kilonova.component.registration import Component


def build_process_command(component: Component) -> Callable[..., None]:
    """A Typer function with the flags that all processes share."""
    part = component.process
    assert part is not None
    lease = part.lease

    def run(
        kubeconfig: Kubeconfig = None,
        context: Context = None,
        namespace: Annotated[
            str,
            typer.Option(metavar="NAME", help="Namespace of its own objects, such as the Lease."),
        ] = "kilonova-system",
        health_port: HealthPort = None,
        leader_elect: LeaderElect = None,
        log_format: LogFormat = None,
    ) -> None:
        from kilonova.component.process.process import (
            HEALTH_PORT,
            ElectionOptions,
            ProcessOptions,
        )
        from kilonova.component.process.run import run_component

        run_component(
            component,
            ProcessOptions(
                kubeconfig=kubeconfig,
                context=context,
                namespace=namespace,
                health_port=HEALTH_PORT if health_port is None else health_port,
                election=ElectionOptions(lease) if lease and leader_elect is not False else None,
                log_format=log_format,
            ),
        )

    run.__doc__ = _help_text(component)
    return run


def _help_text(component: Component) -> str:
    assert component.process is not None
    deploy = component.process.deploy
    where = f" `{deploy}` runs it inside of a cluster." if deploy else ""
    return f"""Run {component.name}, until SIGTERM or Ctrl-C.

    {component.summary} Its CRDs must be installed (`kilonova install`).{where}

    \b
    Examples:
      kilonova run {component.name}
      kilonova run {component.name} --kubeconfig ./kubeconfig --no-leader-elect
    """
