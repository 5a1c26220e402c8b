/** Pending gangs and pods, and why. */
import type { JSX } from "preact";
import { gangHref, podHref, queueHref } from "../app/links";
import { Index, podsByGang, queueOfGang, tables } from "../data/store";
import { number, pluralize, splitId } from "../lib/format";
import { Age } from "../ui/controls";
import { areLoaded } from "../ui/table-notices";
import { firstSentence, isQueued, isUnplaced } from "../workloads/states";

/** A gang, or a pod without a gang, that is not placed. */
export interface PendingItem {
  id: string;
  queue: string;
  why: string;
  gpus: number;
  pods: number;
  since: number | undefined;
  href: string | undefined;
}

const standalonePods = new Index(tables.pods, (pod) =>
  pod.gang || pod.node || pod.phase !== "Pending" ? undefined : "pending",
);

/** All pending gangs and pods, oldest first; without those of other schedulers and gated ones. */
export function pendingIn(queues?: ReadonlySet<string>): PendingItem[] {
  const found: PendingItem[] = [];
  for (const gang of tables.gangs.all.values()) {
    if (!isUnplaced(gang)) continue;
    const pods = [...podsByGang.peek(gang.id).values()];
    if (pods.length && !pods.some(isQueued)) continue;
    found.push({
      id: gang.id,
      queue: queueOfGang(gang),
      why: gang.pendingReason ?? "not yet observed by a scheduler",
      gpus: pods.reduce((sum, pod) => sum + (pod.gpus ?? 0), 0),
      pods: pods.length,
      since: gang.created,
      href: gangHref(gang.id),
    });
  }
  for (const pod of standalonePods.get("pending").values()) {
    if (!isQueued(pod)) continue;
    found.push({
      id: pod.id,
      queue: pod.queue ?? "default",
      why: pod.message ?? pod.reason ?? "not yet observed by a scheduler",
      gpus: pod.gpus ?? 0,
      pods: 1,
      since: pod.created,
      href: podHref(pod.id),
    });
  }
  const selected = queues ? found.filter((each) => queues.has(each.queue)) : found;
  return selected.sort((one, other) => (one.since ?? 0) - (other.since ?? 0));
}

/** Whether the list is complete. */
export function isPendingKnown(): boolean {
  return areLoaded(["gangs", "pods"]);
}

const MAX_SHOWN = 200;

/** The list with reasons. */
export function PendingList({
  pending,
  withQueue = false,
}: {
  pending: readonly PendingItem[];
  withQueue?: boolean;
}): JSX.Element {
  if (pending.length === 0) return <p class="faint">{isPendingKnown() ? "No gangs are pending." : "Unknown."}</p>;
  return (
    <ul class="pending-list">
      {pending.slice(0, MAX_SHOWN).map((each) => (
        <li key={each.id}>
          <p class="pending-head">
            <a class="strong" href={each.href}>
              {splitId(each.id).name}
            </a>
            <span class="faint">{splitId(each.id).namespace}</span>
            {withQueue && (
              <a class="badge" href={queueHref(each.queue)}>
                {each.queue}
              </a>
            )}
            <span class="pending-size faint">
              {pluralize(each.pods, "pod")}
              {each.gpus > 0 && `, ${pluralize(each.gpus, "GPU")}`}, <Age since={each.since} />
            </span>
          </p>
          <p class="muted" title={each.why}>
            {firstSentence(each.why)}.
          </p>
        </li>
      ))}
      {pending.length > MAX_SHOWN && <li class="faint">and {number(pending.length - MAX_SHOWN)} more</li>}
    </ul>
  );
}
