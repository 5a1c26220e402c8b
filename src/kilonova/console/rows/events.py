"""Events as rows. Pure."""

from kilonova.api.group_kinds import GroupKind
from kilonova.component.console.values import parse_timestamp
from kilonova.console.objects import Event
from kilonova.console.objects.events import InvolvedObject
from kilonova.console.rows.model import EventRow


def event_row(event: Event) -> EventRow:
    """The row of an event; the count is omitted if it is 1."""
    involved = event.involved_object
    parts = (_kind_text(involved), involved.namespace, involved.name)
    count = event.series.count if event.series is not None else event.count
    return EventRow(
        id=f"{event.metadata.namespace}/{event.metadata.name}",
        type=event.type,
        reason=event.reason,
        object="/".join(part for part in parts if part),
        message=event.message,
        count=count if count > 1 else 0,
        first=parse_timestamp(event.first_timestamp),
        last=last_seen(event),
        source=event.source.component or event.reporting_component,
    )


def _kind_text(involved: InvolvedObject) -> str:
    """The kind, with its group unless that is well known; reporters may leave the group out."""
    if not involved.api_version:
        return involved.kind
    return str(GroupKind.from_api_version(involved.api_version, involved.kind))


def last_seen(event: Event) -> float:
    """When an event was last observed, in seconds since the epoch."""
    last = event.series.last_observed_time if event.series is not None else None
    times = (last, event.last_timestamp, event.event_time, event.metadata.creation_timestamp)
    return next((found for each in times if (found := parse_timestamp(each)) is not None), 0.0)
