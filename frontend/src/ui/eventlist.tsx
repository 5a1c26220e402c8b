/** A few events, as the details of an object show them. */
import { byTime } from "../events";
import type { JSX } from "preact";
import type { EventRow } from "../rows";
import { Age } from "./bits";
import { Mark } from "./state";
import { areKnown } from "./unread";

const SHOWN = 20;

/** Newest first. */
export function EventList({ events }: { events: readonly EventRow[] }): JSX.Element {
  if (events.length === 0) return <p class="faint">{areKnown(["events"]) ? "None of late." : "Not known."}</p>;
  const newest = [...events].sort(byTime).slice(0, SHOWN);
  return (
    <ul class="event-list">
      {newest.map((event) => (
        <li key={event.id}>
          <Mark tone={event.type === "Warning" ? "warn" : "idle"} />
          <div>
            <b>{event.reason}</b>
            {event.count && event.count > 1 ? <span class="faint"> ×{event.count}</span> : null} <span class="faint">{event.object.split("/").slice(-1)}</span>
            <p class="muted">{event.message}</p>
          </div>
          <Age since={event.last} />
        </li>
      ))}
    </ul>
  );
}
