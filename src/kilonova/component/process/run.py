"""Runs a registered component as a process, with all components that belong to the process."""

from collections.abc import Iterable

from kilonova.component.process.preflight import not_installed_error, unserved_kinds
from kilonova.component.process.process import Assemble, Process, ProcessOptions, run_process
from kilonova.component.references import load_reference
from kilonova.component.registration import Component
from kilonova.component.registry import find_components
from kilonova.kube import Client
from kilonova.kube.admission.registration import WebhookSet
from kilonova.kube.observability.structured_logging import get_logger

_log = get_logger(__name__)


def run_component(component: Component, options: ProcessOptions) -> None:
    """Run until stopped; `CommandFailed` if it cannot start or fails."""

    async def assemble(process: Process) -> None:
        await assemble_parts(process, component.name)

    run_process(f"kilonova-{component.name}", options, assemble)


async def assemble_parts(process: Process, process_name: str) -> None:
    """Add the runnables of every component that is assembled into a process of this name.

    A component whose CRDs are not installed is left out, unless it is the process's own.
    """
    for each in _parts_of(find_components(), process_name):
        assert each.process is not None
        if not each.process.assemble:
            continue
        missing = await unserved_kinds(process.client, each.kinds)
        if missing and each.name == process_name:
            raise not_installed_error(missing)
        if missing:
            _log.warning("component left out: not installed", component=each.name, missing=missing)
            continue
        assemble: Assemble = load_reference(each.process.assemble)
        await assemble(process)


async def load_part_webhooks(client: Client, process_name: str) -> list[WebhookSet]:
    """The webhooks of the components that are parts of a process and whose CRDs are installed."""
    return [
        load_reference(each.process.webhooks)()
        for each in _parts_of(find_components(), process_name)
        if each.process is not None and each.process.webhooks
        if not await unserved_kinds(client, each.kinds)
    ]


def _parts_of(components: Iterable[Component], process_name: str) -> list[Component]:
    return [
        each
        for each in components
        if each.process is not None and each.process.name == process_name
    ]
