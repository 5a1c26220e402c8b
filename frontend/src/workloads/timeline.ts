/** How a gang came to be ready: for each pod what it waited for, and the gang's milestones. */
import { number } from "../format";
import type { GangRow, PodRow } from "../rows";

export type Step = "waits" | "starts" | "readies" | "runs";

/** A stretch of a pod's beginning; `open` while it lasts. */
export interface Stretch {
  step: Step;
  from: number;
  to: number;
  open: boolean;
}

export interface Bar {
  pod: PodRow;
  stretches: Stretch[];
}

export interface Timeline {
  from: number;
  to: number;
  milestones: { name: "applied" | "placed" | "ready" | "ended"; at: number }[];
  bars: Bar[];
  /** Pods that came after the others were ready: replaced or scaled. */
  later: number;
}

/** The beginning of a gang, or of pods that have none; `now` ends what is not over. */
export function timelineOf(gang: GangRow | undefined, pods: readonly PodRow[], now: number): Timeline | undefined {
  const known = pods.filter((pod) => pod.created !== undefined);
  const begins = known.map((pod) => pod.created ?? now);
  const from = Math.min(gang?.created ?? Infinity, ...begins);
  if (!Number.isFinite(from)) return undefined;
  const first = gang ? known.filter((pod) => (pod.created ?? now) <= (gang.readyAt ?? Infinity)) : firstBatch(known);
  const readyAt = gang ? gang.readyAt : latest(first.map((pod) => pod.readyAt));
  const later = known.length - first.length;
  const bars = first.map((pod) => ({ pod, stretches: stretchesOf(pod, now) }));
  const place = new Map(gang?.groups.flatMap((group) => group.pods).map((pod, at) => [pod, at]));
  const rank = ({ pod }: Bar) => place.get(pod.id) ?? place.size;
  bars.sort((one, other) => rank(one) - rank(other) || (one.pod.id < other.pod.id ? -1 : 1));
  const ends = bars.map((bar) => bar.stretches.at(-1)?.to ?? from);
  const placed = gang ? placedAt(gang, first) : latest(first.map((pod) => pod.scheduled));
  const endedAt = readyAt === undefined && later === 0 ? latest(first.map((pod) => pod.finished)) : undefined;
  const to = Math.max(readyAt ?? from, placed ?? from, from + 1, ...ends);
  const milestones: Timeline["milestones"] = [{ name: "applied", at: from }];
  if (placed !== undefined && placed >= from) milestones.push({ name: "placed", at: placed });
  if (readyAt !== undefined && readyAt >= from) milestones.push({ name: "ready", at: readyAt });
  if (endedAt !== undefined) milestones.push({ name: "ended", at: endedAt });
  return { from, to, milestones, bars, later };
}

/** Round times for an axis of `span` seconds: at most `most` of them, from 0. Times of the cluster are whole seconds. */
export function ticks(span: number, most = 6): number[] {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800];
  const step = steps.find((each) => span / each <= most) ?? span / most;
  const found: number[] = [];
  for (let at = 0; at <= span; at += step) found.push(Number(at.toFixed(3)));
  return found;
}

/** A time of an axis, in the unit of its steps: "90 s", "45 min". */
export function tickWords(tick: number, step: number): string {
  if (tick === 0) return "0";
  const [unit, name] = step < 60 ? [1, "s"] : step < 3600 ? [60, "min"] : step < 86400 ? [3600, "h"] : [86400, "d"];
  return `${number(tick / unit)} ${name}`;
}

/** What all names begin with, up to a hyphen; nothing where there is only one. */
export function commonPrefix(names: readonly string[]): string {
  const [first = "", ...others] = names;
  if (others.length === 0) return "";
  let end = first.length;
  for (const name of others) while (!name.startsWith(first.slice(0, end))) end--;
  return first.slice(0, first.slice(0, end).lastIndexOf("-") + 1);
}

function stretchesOf(pod: PodRow, now: number): Stretch[] {
  const over = pod.finished;
  const points: [Step, number | undefined, number | undefined][] = [
    ["waits", pod.created, pod.scheduled],
    ["starts", pod.scheduled, pod.started],
    // A pod that is over no longer says when it was ready.
    [over !== undefined && pod.readyAt === undefined ? "runs" : "readies", pod.started, pod.readyAt],
  ];
  const found: Stretch[] = [];
  for (const [step, begin, end] of points) {
    if (begin === undefined) break;
    const to = end ?? over ?? now;
    found.push({ step, from: begin, to: Math.max(begin, to), open: end === undefined && over === undefined });
    if (end === undefined) break;
  }
  return found;
}

/** When every group had enough pods with a node: as its pods say, or the gang, which notes it later. */
function placedAt(gang: GangRow, pods: readonly PodRow[]): number | undefined {
  if (gang.scheduled === undefined) return undefined;
  const times = new Map(pods.map((pod) => [pod.id, pod.scheduled ?? Infinity]));
  const enough = gang.groups.map(({ min, pods: ids }) => {
    const sorted = ids.map((id) => times.get(id) ?? Infinity).sort((one, other) => one - other);
    return min > 0 ? (sorted[min - 1] ?? Infinity) : 0;
  });
  return Math.min(gang.scheduled, Math.max(0, ...enough) || Infinity);
}

/** Pods that have no gang began together if each came before those before it were ready. */
function firstBatch(pods: readonly PodRow[]): PodRow[] {
  const found: PodRow[] = [];
  let settled = Infinity;
  for (const pod of [...pods].sort((one, other) => (one.created ?? 0) - (other.created ?? 0))) {
    if ((pod.created ?? 0) > settled) break;
    found.push(pod);
    const then = pod.readyAt ?? pod.finished ?? Infinity;
    settled = found.length === 1 ? then : Math.max(settled, then);
  }
  return found;
}

function latest(times: (number | undefined)[]): number | undefined {
  if (times.length === 0 || times.includes(undefined)) return undefined;
  return Math.max(...(times as number[]));
}
