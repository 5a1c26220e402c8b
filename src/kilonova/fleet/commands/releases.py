"""`kilonova fleet rollback`, `mask` and `unmask`: which releases run."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kilonova.component.command.flags import Context, Data, Kubeconfig, Namespace
from kilonova.fleet.commands.name_completion import complete_deployments

if TYPE_CHECKING:
    from kilonova.api.inference_engine import Deployment
    from kilonova.fleet.commands.release_changes import ReleaseChange

Name = Annotated[
    str,
    typer.Argument(metavar="DEPLOYMENT", help="Its name.", autocompletion=complete_deployments),
]
Releases = Annotated[list[str], typer.Argument(metavar="RELEASE...", help="Releases.")]


def rollback(
    name: Name,
    to_release: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The release to go back to.  [default: the last that did not fail]"
        ),
    ] = None,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Go back to a former release, in all clusters at once.

    The current release is masked: it runs nowhere until it is unmasked.

    \b
    Examples:
      kilonova fleet rollback llama
      kilonova fleet rollback llama --to-release llama-2026-10
    """
    from kilonova.fleet.commands.release_changes import plan_rollback

    def plan(found: "Deployment", existing: list[str]) -> "ReleaseChange":
        return plan_rollback(found, existing, to_release)

    _change(name, namespace, plan, kubeconfig, context, data)


def mask(
    name: Name,
    releases: Releases,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Mask releases: clusters that run one go to the newest that is not masked, at once.

    \b
    Example:
      kilonova fleet mask llama llama-2026-11
    """
    from kilonova.fleet.commands.release_changes import plan_mask

    def plan(found: "Deployment", existing: list[str]) -> "ReleaseChange":
        return plan_mask(found, existing, releases)

    _change(name, namespace, plan, kubeconfig, context, data)


def unmask(
    name: Name,
    releases: Releases,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    data: Data = None,
) -> None:
    """Allow masked releases again; if spec.release names one, it is rolled out in waves.

    \b
    Example:
      kilonova fleet unmask llama llama-2026-11
    """
    from kilonova.fleet.commands.release_changes import plan_unmask

    def plan(found: "Deployment", existing: list[str]) -> "ReleaseChange":
        return plan_unmask(found, releases)

    _change(name, namespace, plan, kubeconfig, context, data)


def _change(
    name: str,
    namespace: str | None,
    plan: "Callable[[Deployment, list[str]], ReleaseChange]",
    kubeconfig: Path | None,
    context: str | None,
    data: Path | None,
) -> None:
    from kilonova.component.command.cluster_selection import resolve_kubeconfig, resolve_namespace
    from kilonova.fleet.commands.hub_access import (
        change_deployment,
        get_deployment,
        list_release_names,
        run_on_hub,
    )
    from kilonova.kube import Client

    resolved = resolve_kubeconfig(kubeconfig, context, data)
    space = resolve_namespace(namespace, resolved, context)

    async def change(client: Client) -> str:
        found = await get_deployment(client, name, space)
        planned = plan(found, await list_release_names(client, space))
        await change_deployment(client, found, planned.spec)
        return planned.message

    typer.echo(run_on_hub(resolved, context, change))
