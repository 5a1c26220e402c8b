/** Events in the details of an object. */

import type { JSX } from "preact";
import { compareByTime } from "../data/events";
import type { EventRow } from "../data/rows";
import { Age } from "./controls";
import { Mark } from "./state";
import { areLoaded } from "./table-notices";

const MAX_SHOWN = 20;

/** Newest first. */
export function EventList({ events }: { events: readonly EventRow[] }): JSX.Element {
  if (events.length === 0) return <p class="faint">{areLoaded(["events"]) ? "No recent events." : "Unknown."}</p>;
  const newest = [...events].sort(compareByTime).slice(0, MAX_SHOWN);
  return (
    <ul class="event-list">
      {newest.map((event) => (
        <li key={event.id}>
          <Mark tone={event.type === "Warning" ? "warn" : "idle"} />
          <div>
            <b>{event.reason}</b>
            {event.count && event.count > 1 ? <span class="faint"> ×{event.count}</span> : null}{" "}
            <span class="faint">{event.object.split("/").slice(-1)}</span>
            <p class="muted">{event.message}</p>
          </div>
          <Age since={event.last} />
        </li>
      ))}
    </ul>
  );
}
