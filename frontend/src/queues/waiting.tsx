/** Who waits for a place, and why. */
import type { JSX } from "preact";
import { apart, counted, number } from "../format";
import { gangHref, podHref, queueHref } from "../links";
import { Index, podsByGang, queueOf, tables } from "../store";
import { Age } from "../ui/bits";
import { areKnown } from "../ui/unread";
import { firstSentence, waitsForPlace } from "../workloads/states";
import { isQueued } from "./usual";

/** A gang, or a pod that has none, without a place. */
export interface Waiting {
  id: string;
  queue: string;
  why: string;
  gpus: number;
  pods: number;
  since: number | undefined;
  href: string | undefined;
}

const lonePods = new Index(tables.pods, (pod) => (pod.gang || pod.node || pod.phase !== "Pending" ? undefined : "waiting"));

/** All that wait in queues, the oldest first: not what another scheduler places, or what must not be placed yet. */
export function waitingIn(queues?: ReadonlySet<string>): Waiting[] {
  const found: Waiting[] = [];
  for (const gang of tables.gangs.all.values()) {
    if (!waitsForPlace(gang)) continue;
    const pods = [...podsByGang.peek(gang.id).values()];
    if (pods.length && !pods.some(isQueued)) continue;
    found.push({
      id: gang.id,
      queue: queueOf(gang),
      why: gang.waits ?? "not looked at yet",
      gpus: pods.reduce((sum, pod) => sum + (pod.gpus ?? 0), 0),
      pods: pods.length,
      since: gang.created,
      href: gangHref(gang.id),
    });
  }
  for (const pod of lonePods.get("waiting").values()) {
    if (!isQueued(pod)) continue;
    found.push({
      id: pod.id,
      queue: pod.queue ?? "default",
      why: pod.message ?? pod.reason ?? "not looked at yet",
      gpus: pod.gpus ?? 0,
      pods: 1,
      since: pod.created,
      href: podHref(pod.id),
    });
  }
  const mine = queues ? found.filter((each) => queues.has(each.queue)) : found;
  return mine.sort((one, other) => (one.since ?? 0) - (other.since ?? 0));
}

/** Whether these are all who wait. */
export function waitingIsKnown(): boolean {
  return areKnown(["gangs", "pods"]);
}

const SHOWN = 200;

/** A list of them. */
export function WaitingList({ waiting, withQueue = false }: { waiting: readonly Waiting[]; withQueue?: boolean }): JSX.Element {
  if (waiting.length === 0) return <p class="faint">{waitingIsKnown() ? "Nobody waits." : "Not known."}</p>;
  return (
    <ul class="waiting">
      {waiting.slice(0, SHOWN).map((each) => (
        <li key={each.id}>
          <p class="waiting-head">
            <a class="strong" href={each.href}>{apart(each.id).name}</a>
            <span class="faint">{apart(each.id).namespace}</span>
            {withQueue && <a class="badge" href={queueHref(each.queue)}>{each.queue}</a>}
            <span class="waiting-size faint">
              {counted(each.pods, "pod")}
              {each.gpus > 0 && `, ${counted(each.gpus, "GPU")}`}, <Age since={each.since} />
            </span>
          </p>
          <p class="muted" title={each.why}>{firstSentence(each.why)}.</p>
        </li>
      ))}
      {waiting.length > SHOWN && <li class="faint">and {number(waiting.length - SHOWN)} more</li>}
    </ul>
  );
}
