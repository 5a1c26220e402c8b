"""A kopf operator, as its users write them: a Board has as many pages as its spec says.

Run by `kopf run` in the test beside it.
"""

from typing import Any

import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """No peering: one operator is enough here. Reactions are not held up by batching."""
    settings.peering.standalone = True
    settings.posting.level = 20
    settings.watching.server_timeout = 60


@kopf.on.create("boards.example.com")
@kopf.on.update("boards.example.com")
def draw(spec: kopf.Spec, reason: str, **_: Any) -> Any:
    """The answer lands in the status, under the name of this function."""
    return {"pages": spec.get("pages", 1), "because": reason}


@kopf.on.delete("boards.example.com")
def wipe(name: str, body: kopf.Body, **_: Any) -> None:
    """Kopf's finalizer goes when this has returned."""
    kopf.info(body, reason="Wiped", message=f"{name} is blank")


@kopf.timer("boards.example.com", interval=0.2, initial_delay=0.1)
def look(patch: kopf.Patch, status: kopf.Status, **_: Any) -> None:
    """Stops writing after three looks, so that the test can see rest."""
    if (looks := status.get("looks", 0)) < 3:
        patch.status["looks"] = looks + 1
