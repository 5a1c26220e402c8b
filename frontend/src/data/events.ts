/** Filtering and grouping of events. */
import type { EventRow } from "./rows";

/** One event, or all events of one type, reason and kind of object, represented by the newest. */
export interface EventGroup extends EventRow {
  count: number;
  objects: number;
}

export interface EventFilter {
  q: string;
  type: string;
  reason: string;
  kind: string;
}

/** Whether an event matches the filter. */
export function matchesFilter(event: EventRow, { q, type, reason, kind }: EventFilter): boolean {
  if (type && event.type !== type) return false;
  if (reason && event.reason !== reason) return false;
  if (kind && !event.object.startsWith(`${kind}/`)) return false;
  if (!q) return true;
  const text = `${event.object} ${event.reason} ${event.message} ${event.source ?? ""}`.toLowerCase();
  return q
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

/** Start time of an event: the suffix of its name, in nanoseconds; its timestamps are whole seconds. */
const startKey = (event: EventRow): string => event.id.slice(event.id.lastIndexOf(".") + 1);

/** Compares newest first, also within one second. */
export function compareByTime(one: EventRow, other: EventRow): number {
  if (one.last !== other.last) return other.last - one.last;
  return startKey(one) < startKey(other) ? 1 : -1;
}

/** Newest first; with `together`, one entry for all of the same type, reason and kind. */
export function groupEvents(events: readonly EventRow[], together: boolean): EventGroup[] {
  const newest = [...events].sort(compareByTime);
  if (!together) return newest.map((event) => ({ ...event, count: event.count ?? 1, objects: 1 }));
  const groups = new Map<string, EventGroup & { seen: Set<string> }>();
  for (const event of newest) {
    const key = `${event.type} ${event.reason} ${event.object.split("/")[0]}`;
    const group = groups.get(key);
    if (!group)
      groups.set(key, { ...event, id: key, count: event.count ?? 1, objects: 1, seen: new Set([event.object]) });
    else {
      group.count += event.count ?? 1;
      group.objects = group.seen.add(event.object).size;
    }
  }
  return [...groups.values()];
}
