"""The greeter: a controller and a webhook, in `kilonova up` and as a process of its own."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from kilonova.component.child import ChildProcess, ChildProgram
from kilonova.component.embedded import EmbeddedComponent, EmbeddedContext
from kilonova.component.process.process import Process
from kilonova.kube import Client, Controller, Key, Reflector, Runnable, Watch
from kilonova.kube.admission import (
    AdmissionRequest,
    AdmissionResponse,
    Allowed,
    FieldError,
    deny_invalid,
)
from kilonova.kube.admission.in_process import InProcessWebhook
from tests.component.toy.kind import GREETINGS, Greeting

FAILURE_VARIABLE = "TOY_GREETER_FAILS"
"""Names a file: while it exists, the greeter fails."""


def desire(greeting: Greeting, salutation: str) -> str:
    """The message of a greeting."""
    return f"{salutation}, {greeting.spec.whom}!"


@dataclass(frozen=True)
class Greeter:
    """The controller: observe, desire, write."""

    client: Client
    greetings: Reflector[Greeting]
    salutation: str

    async def reconcile(self, key: Key) -> None:
        found = self.greetings.store.get(key)
        if found is None or found.status.message == desire(found, self.salutation):
            return
        status = {"status": {"message": desire(found, self.salutation)}}
        await self.client.patch(
            GREETINGS, found.metadata.name, status, key[0], subresource="status"
        )


def build_greeter(client: Client, salutation: str) -> tuple[Reflector[Greeting], Runnable]:
    """The informer of every replica, and the controller of the leader."""
    greetings = Reflector(client, GREETINGS)
    greeter = Greeter(client, greetings, salutation)
    return greetings, Controller("greeter", greeter.reconcile, [Watch(greetings)])


async def validate_greeting(request: AdmissionRequest) -> AdmissionResponse:
    """Reject a greeting of nobody."""
    if not (request.object or {}).get("spec", {}).get("whom"):
        return deny_invalid(FieldError("spec.whom", "must name whom to greet"))
    return Allowed()


def build_embedded_greeter(context: EmbeddedContext) -> EmbeddedComponent:
    """The greeter in `kilonova up`."""
    salutation = str(context.flags.get("salutation") or "Hello")

    def build_runnables() -> Sequence[Runnable]:
        if os.path.exists(os.environ.get(FAILURE_VARIABLE, "")):
            raise RuntimeError("the greeter has lost its voice")
        program = ChildProgram(
            command=(sys.executable, "-u", "-c", "import time; print('singing'); time.sleep(3600)"),
            log=context.directory / "singer.log",
        )
        return [*build_greeter(context.client, salutation), ChildProcess("singer", program)]

    def build_webhooks() -> Sequence[InProcessWebhook]:
        return [
            InProcessWebhook(
                "greetings.toy.example.com",
                validate_greeting,
                GREETINGS.group,
                GREETINGS.plural,
                ("CREATE", "UPDATE"),
            )
        ]

    return EmbeddedComponent(build_runnables=build_runnables, build_webhooks=build_webhooks)


async def assemble_greeter(process: Process) -> None:
    """The greeter in `kilonova run greeter`."""
    greetings, controller = build_greeter(process.leader_client, "Hello")
    process.manager.add(greetings)
    process.manager.add_leader_runnables(controller)
