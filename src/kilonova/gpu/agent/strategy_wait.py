"""Whether a MIGStrategy may still be assigned to a fresh node.

The controller of MIGStrategies assigns one once the agent has published the GPUs of the node. Until
then no pod may get all of a GPU that is going to be partitioned; so a node that no agent has
published before withholds its GPUs while a strategy selects it and none is assigned. The wait is
bounded: the controller may not run, or may find that the strategy does not suit the GPUs.
"""

from collections.abc import Mapping

from kilonova.gpu.agent.resources import NODE_LABELS, STRATEGY_SELECTORS, Node
from kilonova.gpu.mig.parted.labels import CONFIG_LABEL
from kilonova.kube import ApiStatusError, Client
from kilonova.kube.observability.structured_logging import get_logger

WAIT_SECONDS = 30.0

_log = get_logger(__name__)


class StrategyWait:
    """What the agent of one node waits for; it lists the strategies once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._is_known = False
        self._strategy = ""
        self._until = 0.0

    async def find_reason(self, node: Node, labels: Mapping[str, str | None], now: float) -> str:
        """Why GPUs are withheld until a strategy is assigned; empty if there is nothing to wait
        for. `labels` are those that the agent is about to publish."""
        if not self._is_known:
            self._is_known = True
            if not node.metadata.annotations.agent:
                self._strategy = await self._find_strategy(node.metadata.name, labels)
                self._until = now + WAIT_SECONDS
        known = node.metadata
        is_decided = bool(known.annotations.strategy or known.labels.get(CONFIG_LABEL))
        if not self._strategy or is_decided or now >= self._until:
            self._strategy = ""
            return ""
        return f"MIGStrategy {self._strategy} is not assigned yet"

    def next_check(self, now: float) -> float | None:
        """Seconds until the wait ends; None if there is none."""
        return max(0.0, self._until - now) if self._strategy else None

    async def _find_strategy(self, name: str, published: Mapping[str, str | None]) -> str:
        try:
            strategies = (await self._client.list(STRATEGY_SELECTORS)).items
            if not strategies:
                return ""
            node = await self._client.get(NODE_LABELS, name)
        except ApiStatusError as error:
            # Without the kind there are no strategies; without permission nothing can be known.
            _log.debug("MIGStrategies not read", node=name, error=str(error))
            return ""
        labels = {**node.metadata.labels, **published}
        return next((each.metadata.name for each in strategies if each.selects(labels)), "")
