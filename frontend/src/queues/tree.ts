/** Queues in tree order, and their shares of a resource. */
import type { QueueRow } from "../data/rows";

export const GPU = "nvidia.com/gpu";

export interface QueueNode {
  queue: QueueRow;
  depth: number;
}

/** Amounts of one resource for a queue. */
export interface Share {
  /** Undefined until a scheduler has written the status of the queue. */
  used: number | undefined;
  requested: number;
  deserved: number | undefined;
  fairShare: number | undefined;
  limit: number | undefined;
}

/** Parents before their children, by name; a queue with a missing parent or in a cycle is a root. */
export function treeOf(queues: Iterable<QueueRow>): QueueNode[] {
  const all = [...queues].sort((one, other) => (one.id < other.id ? -1 : 1));
  const known = new Set(all.map((queue) => queue.id));
  const children = new Map<string | undefined, QueueRow[]>();
  for (const queue of all) {
    const parent = queue.parent && known.has(queue.parent) ? queue.parent : undefined;
    children.set(parent, [...(children.get(parent) ?? []), queue]);
  }
  const found: QueueNode[] = [];
  const seen = new Set<string>();
  const visit = (queue: QueueRow, depth: number) => {
    if (seen.has(queue.id)) return;
    seen.add(queue.id);
    found.push({ queue, depth });
    for (const child of children.get(queue.id) ?? []) visit(child, depth + 1);
  };
  for (const queue of children.get(undefined) ?? []) visit(queue, 0);
  for (const queue of all) visit(queue, 0);
  return found;
}

/** All resources named by any queue, GPUs first. */
export function resourcesOf(queues: Iterable<QueueRow>): string[] {
  const found = new Set<string>();
  for (const queue of queues)
    for (const amounts of [queue.deserved, queue.limit, queue.used, queue.requested, queue.fairShare])
      for (const resource of Object.keys(amounts ?? {})) found.add(resource);
  found.add(GPU);
  const rank = (resource: string) => [GPU, "cpu", "memory"].indexOf(resource) + 1 || 9;
  return [...found].sort((one, other) => rank(one) - rank(other) || (one < other ? -1 : 1));
}

/** A queue's amounts of a resource. */
export function queueShare(queue: QueueRow, resource: string): Share {
  return {
    used: queue.observed ? (queue.used?.[resource] ?? 0) : undefined,
    requested: queue.requested?.[resource] ?? 0,
    deserved: queue.deserved?.[resource],
    fairShare: queue.fairShare?.[resource],
    limit: queue.limit?.[resource],
  };
}

/** The amount that fills a bar: the same for all queues, so that bars are comparable. */
export function barScale(queues: Iterable<QueueRow>, resource: string): number {
  let largest = 0;
  for (const queue of queues) {
    const share = queueShare(queue, resource);
    largest = Math.max(
      largest,
      share.used ?? 0,
      share.requested,
      share.deserved ?? 0,
      share.fairShare ?? 0,
      share.limit ?? 0,
    );
  }
  return largest || 1;
}

/** The tone of a queue that is not ready; a new one is not a problem. */
export function problemTone(queue: QueueRow): "idle" | "bad" {
  return queue.observed ? "bad" : "idle";
}

/** A queue and its ancestors. */
export function queuePath(name: string, queues: ReadonlyMap<string, QueueRow>): Set<string> {
  const found = new Set<string>();
  for (let at: string | undefined = name; at && !found.has(at); at = queues.get(at)?.parent) found.add(at);
  return found;
}
