/** Queues in the order of their tree, and how much of a resource each has. */
import type { QueueRow } from "../rows";

export const GPU = "nvidia.com/gpu";

export interface Branch {
  queue: QueueRow;
  depth: number;
}

/** What a queue has of one resource. */
export interface Share {
  used: number;
  requested: number;
  deserved: number | undefined;
  fairShare: number | undefined;
  limit: number | undefined;
}

/** Parents before their children, by name; one whose parent is not there, or who is its own, is a root. */
export function treeOf(queues: Iterable<QueueRow>): Branch[] {
  const all = [...queues].sort((one, other) => (one.id < other.id ? -1 : 1));
  const known = new Set(all.map((queue) => queue.id));
  const children = new Map<string | undefined, QueueRow[]>();
  for (const queue of all) {
    const parent = queue.parent && known.has(queue.parent) ? queue.parent : undefined;
    children.set(parent, [...(children.get(parent) ?? []), queue]);
  }
  const found: Branch[] = [];
  const seen = new Set<string>();
  const grow = (queue: QueueRow, depth: number) => {
    if (seen.has(queue.id)) return;
    seen.add(queue.id);
    found.push({ queue, depth });
    for (const child of children.get(queue.id) ?? []) grow(child, depth + 1);
  };
  for (const queue of children.get(undefined) ?? []) grow(queue, 0);
  for (const queue of all) grow(queue, 0);
  return found;
}

/** All resources that any queue tells of: GPUs first. */
export function resourcesOf(queues: Iterable<QueueRow>): string[] {
  const found = new Set<string>();
  for (const queue of queues)
    for (const amounts of [queue.deserved, queue.limit, queue.used, queue.requested, queue.fairShare])
      for (const resource of Object.keys(amounts ?? {})) found.add(resource);
  found.add(GPU);
  const rank = (resource: string) => [GPU, "cpu", "memory"].indexOf(resource) + 1 || 9;
  return [...found].sort((one, other) => rank(one) - rank(other) || (one < other ? -1 : 1));
}

/** What a queue has of a resource. */
export function shareOf(queue: QueueRow, resource: string): Share {
  return {
    used: queue.used?.[resource] ?? 0,
    requested: queue.requested?.[resource] ?? 0,
    deserved: queue.deserved?.[resource],
    fairShare: queue.fairShare?.[resource],
    limit: queue.limit?.[resource],
  };
}

/** The amount that fills a bar: the same for all queues, so that bars can be compared. */
export function scaleOf(queues: Iterable<QueueRow>, resource: string): number {
  let most = 0;
  for (const queue of queues) {
    const share = shareOf(queue, resource);
    most = Math.max(most, share.used, share.requested, share.deserved ?? 0, share.fairShare ?? 0, share.limit ?? 0);
  }
  return most || 1;
}

/** A queue and those above it. */
export function lineage(name: string, queues: ReadonlyMap<string, QueueRow>): Set<string> {
  const found = new Set<string>();
  for (let at: string | undefined = name; at && !found.has(at); at = queues.get(at)?.parent) found.add(at);
  return found;
}
