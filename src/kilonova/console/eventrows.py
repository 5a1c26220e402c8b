"""Events as rows. Pure."""

from kilonova.console.objects import Event
from kilonova.console.rows import EventRow, moment


def event_row(event: Event) -> EventRow:
    """An event as it is shown; of one that happened once, the count is left out."""
    about = event.involved_object
    parts = (about.kind, about.namespace, about.name)
    count = event.series.count if event.series is not None else event.count
    return EventRow(
        id=f"{event.metadata.namespace}/{event.metadata.name}",
        type=event.type,
        reason=event.reason,
        object="/".join(part for part in parts if part),
        message=event.message,
        count=count if count > 1 else 0,
        first=moment(event.first_timestamp),
        last=last_seen(event),
        source=event.source.component or event.reporting_component,
    )


def last_seen(event: Event) -> float:
    """When it happened last, in seconds since the epoch."""
    last = event.series.last_observed_time if event.series is not None else None
    times = (last, event.last_timestamp, event.event_time, event.metadata.creation_timestamp)
    return next((found for each in times if (found := moment(each)) is not None), 0.0)
