"""The check of `kilonova doctor`."""

from collections.abc import Sequence

from kilonova.component.finding import Finding, ok, warning
from kilonova.kube import Client, NotFound
from tests.component.toy.kind import GREETINGS


async def check_greetings(client: Client) -> Sequence[Finding]:
    """Whether every greeting was said."""
    try:
        found = (await client.list(GREETINGS)).items
    except NotFound:
        return []
    silent = [each.metadata.name for each in found if not each.status.message]
    if silent:
        return [warning("greetings", f"not said: {', '.join(silent)}", "run the greeter")]
    return [ok("greetings", f"all {len(found)} were said")]
