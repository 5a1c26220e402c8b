/** The queue of whatever names none: it is there even if nobody made it. */
import { computed, type ReadonlySignal } from "@preact/signals";
import type { PodRow, QueueRow } from "../rows";
import { loaded, queueOf, tables } from "../store";
import { hello } from "../stream";
import { isOver } from "../workloads/states";
import { GPU } from "./tree";

const USUAL = "default";
const NONE_NAMED = "default-scheduler";

/** All queues, as `kilonova queues` has them: with the usual one, made or not. */
export const allQueues: ReadonlySignal<readonly QueueRow[]> = computed(() => {
  const made = [...tables.queues.all.values()];
  const isKnown = ["queues", "gangs", "pods"].every((table) => loaded.value.has(table));
  if (!isKnown || tables.queues.get(USUAL)) return made;
  const gangs = tables.gangs.all;
  const mine = [...tables.pods.all.values()].filter((pod) => {
    const gang = gangs.get(pod.gang ?? "");
    return isQueued(pod) && (gang ? queueOf(gang) : (pod.queue ?? USUAL)) === USUAL;
  });
  return [...made, usualQueue(mine)];
});

/** Not what another scheduler places, what must not be placed yet, and what is over or about to be. */
export function isQueued(pod: PodRow): boolean {
  const counts = hello.value?.schedulers.includes(pod.scheduler ?? NONE_NAMED) ?? false;
  return counts && !["SchedulingGated", "Terminating"].includes(pod.state) && !isOver(pod);
}

/** Nobody writes how it is used: that is told from its pods. */
function usualQueue(pods: readonly PodRow[]): QueueRow {
  return { id: USUAL, weight: 1, ready: true, used: sums(pods.filter((pod) => pod.node)), requested: sums(pods) };
}

function sums(pods: readonly PodRow[]): Record<string, number> {
  const total = { [GPU]: 0, cpu: 0, memory: 0 };
  for (const pod of pods) {
    total[GPU] += pod.devices?.reduce((sum, [, share]) => sum + share, 0) ?? pod.gpus ?? 0;
    total.cpu += pod.cpu ?? 0;
    total.memory += pod.ram ?? 0;
  }
  return Object.fromEntries(Object.entries(total).map(([resource, sum]) => [resource, Math.round(sum * 1000) / 1000]));
}
