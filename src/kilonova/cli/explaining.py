"""What `kilonova why` says, for the console."""

import asyncio
from collections.abc import Callable
from datetime import datetime

from kilonova.cli.whytext import answer_text
from kilonova.console import Explain, Explained
from kilonova.kube import Client
from kilonova.scheduler.answering import answer
from kilonova.scheduler.capturing import capture
from kilonova.scheduler.settings import Settings


def explain_by(client: Client, settings: Settings, now: Callable[[], datetime]) -> Explain:
    """Looks at the cluster of a client as it is when it is asked."""

    async def explain(namespace: str, name: str) -> Explained | None:
        picture = (await capture(client, settings, now=now)).picture
        found = await asyncio.to_thread(answer, picture, namespace, name)
        return found and Explained(answer_text(found, picture.now), found)

    return explain
