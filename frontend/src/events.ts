/** Events, filtered and put together. */
import type { EventRow } from "./rows";

/** One event, or all of one type, reason and kind of object, by the newest of them. */
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

/** Whether an event is one of those asked for. */
export function matching(event: EventRow, { q, type, reason, kind }: EventFilter): boolean {
  if (type && event.type !== type) return false;
  if (reason && event.reason !== reason) return false;
  if (kind && !event.object.startsWith(`${kind}/`)) return false;
  if (!q) return true;
  const text = `${event.object} ${event.reason} ${event.message} ${event.source ?? ""}`.toLowerCase();
  return q.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

/** When an event began: its name ends with that, in nanoseconds; its times are whole seconds. */
const began = (event: EventRow): string => event.id.slice(event.id.lastIndexOf(".") + 1);

/** Newest first, also within a second; for sorting. */
export function byTime(one: EventRow, other: EventRow): number {
  if (one.last !== other.last) return other.last - one.last;
  return began(one) < began(other) ? 1 : -1;
}

/** Newest first; together with those like it where that is asked for. */
export function grouped(events: readonly EventRow[], together: boolean): EventGroup[] {
  const newest = [...events].sort(byTime);
  if (!together) return newest.map((event) => ({ ...event, count: event.count ?? 1, objects: 1 }));
  const groups = new Map<string, EventGroup & { seen: Set<string> }>();
  for (const event of newest) {
    const key = `${event.type} ${event.reason} ${event.object.split("/")[0]}`;
    const group = groups.get(key);
    if (!group) groups.set(key, { ...event, id: key, count: event.count ?? 1, objects: 1, seen: new Set([event.object]) });
    else {
      group.count += event.count ?? 1;
      group.objects = group.seen.add(event.object).size;
    }
  }
  return [...groups.values()];
}
