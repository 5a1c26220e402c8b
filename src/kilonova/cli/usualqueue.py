"""The queue of whatever names none, which is there even if nobody made it. Pure."""

from kilonova.api.scheduling import DEFAULT_QUEUE
from kilonova.cli.views import Tables, queue_of_gang
from kilonova.console.noderows import GPU
from kilonova.console.rows import PodRow, QueueRow


def queue_rows(tables: Tables) -> list[QueueRow]:
    """All queues, as `kilonova queues` has them: with the usual one, made or not."""
    if any(row.id == DEFAULT_QUEUE for row in tables.queues):
        return list(tables.queues)
    return [*tables.queues, _usual_queue(tables)]


def _waits_alone(pod: PodRow) -> bool:
    """Whether a pod that is in no gang has no place yet."""
    return pod.phase == "Pending" and not pod.node and not pod.gang


def _usual_queue(tables: Tables) -> QueueRow:
    """Nobody writes how it is used: that is told from the pods and gangs that name no queue."""
    pods = {pod.id: pod for pod in tables.pods}
    named: dict[str, str] = {}
    for gang in tables.gangs:
        mine = [pods[name] for group in gang.groups for name in group.pods if name in pods]
        named[gang.id] = queue_of_gang(gang, mine)
    unnamed = [pod for pod in tables.pods if not named.get(pod.gang, pod.queue)]
    gangs = sum(gang.phase == "Pending" and not named[gang.id] for gang in tables.gangs)
    return QueueRow(
        id=DEFAULT_QUEUE,
        weight=1,
        ready=True,
        used={GPU: round(sum(pod.held for pod in unnamed), 3)},
        waiting=gangs + sum(map(_waits_alone, unnamed)),
    )
