"""The logs of several pods, line by line."""

import asyncio
from collections.abc import Callable, Sequence

from kilonova.api.serving import names
from kilonova.kube import Client, KubeError
from kilonova.serving.resources import Pod

_CONTAINERS = {"gateway": names.GATEWAY_CONTAINER, "server": names.SERVER_CONTAINER}


def select_pods(pods: Sequence[Pod], group: str, gateway: bool) -> list[Pod]:
    """The pods of a group, of the gateways, or all."""
    return [
        each
        for each in pods
        if (not group or each.metadata.labels.get(names.SERVER) == group)
        and (not gateway or each.metadata.labels.get(names.ROLE) == "gateway")
    ]


async def print_logs(
    client: Client,
    pods: Sequence[Pod],
    print_line: Callable[[str], None],
    *,
    follow: bool,
    tail: int,
) -> None:
    """Print the logs of pods, one after another; with `follow` all at the same time."""
    tasks = [_print_pod(client, each, print_line, follow=follow, tail=tail) for each in pods]
    if follow:
        await asyncio.gather(*tasks)
    else:
        for each in tasks:
            await each


async def _print_pod(
    client: Client, pod: Pod, print_line: Callable[[str], None], *, follow: bool, tail: int
) -> None:
    known = pod.metadata
    rest = b""
    try:
        stream = client.logs(
            known.name,
            known.namespace,
            container=_choose_container(pod),
            follow=follow,
            tail=tail,
        )
        async for chunk in stream:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                print_line(f"{known.name} {line.decode(errors='replace')}")
    except KubeError as error:
        print_line(f"{known.name} has no log: {error}")
    if rest:
        print_line(f"{known.name} {rest.decode(errors='replace')}")


def _choose_container(pod: Pod) -> str:
    """Ours if the pod has it: that of a template may be called otherwise."""
    wanted = _CONTAINERS.get(pod.metadata.labels.get(names.ROLE, ""), "")
    present = [each.name for each in pod.status.container_statuses]
    return wanted if wanted in present else next(iter(present), "")
