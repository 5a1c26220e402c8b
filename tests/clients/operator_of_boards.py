"""A typical kopf operator: a Board has as many pages as its spec says.

Run by `kopf run` in the test beside it.
"""

from typing import Any

import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """No peering: there is one operator. Events are not batched."""
    settings.peering.standalone = True
    settings.posting.level = 20
    settings.watching.server_timeout = 60


@kopf.on.create("boards.example.com")
@kopf.on.update("boards.example.com")
def create_pages(spec: kopf.Spec, reason: str, **_: Any) -> Any:
    """The result is stored in the status, under the name of this function."""
    return {"pages": spec.get("pages", 1), "because": reason}


@kopf.on.delete("boards.example.com")
def delete_pages(name: str, body: kopf.Body, **_: Any) -> None:
    """Kopf's finalizer is removed when this has returned."""
    kopf.info(body, reason="Wiped", message=f"{name} is blank")


@kopf.timer("boards.example.com", interval=0.2, initial_delay=0.1)
def observe_board(patch: kopf.Patch, status: kopf.Status, **_: Any) -> None:
    """Stops writing after three calls, so that the test can observe an idle operator."""
    if (looks := status.get("looks", 0)) < 3:
        patch.status["looks"] = looks + 1
