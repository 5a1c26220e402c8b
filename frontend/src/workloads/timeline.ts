/** The startup of a gang: phases of each pod, and the gang's milestones. */

import type { GangRow, PodRow } from "../data/rows";
import { number } from "../lib/format";

export type Phase = "pending" | "starting" | "unready" | "running";

/** A phase of a pod's startup; `open` while it lasts. */
export interface PhaseSpan {
  phase: Phase;
  from: number;
  to: number;
  open: boolean;
}

export interface Bar {
  pod: PodRow;
  spans: PhaseSpan[];
}

export interface Timeline {
  from: number;
  to: number;
  milestones: { name: "applied" | "placed" | "ready" | "ended"; at: number }[];
  bars: Bar[];
  /** Pods created after the others were ready: replacements or scaled-up ones. */
  later: number;
}

/** The startup of a gang, or of pods without one; phases in progress end at `now`. */
export function timelineOf(gang: GangRow | undefined, pods: readonly PodRow[], now: number): Timeline | undefined {
  const known = pods.filter((pod) => pod.created !== undefined);
  const begins = known.map((pod) => pod.created ?? now);
  const from = Math.min(gang?.created ?? Infinity, ...begins);
  if (!Number.isFinite(from)) return undefined;
  const first = gang ? known.filter((pod) => (pod.created ?? now) <= (gang.readyAt ?? Infinity)) : firstBatch(known);
  const readyAt = gang ? gang.readyAt : latest(first.map((pod) => pod.readyAt));
  const later = known.length - first.length;
  const bars = first.map((pod) => ({ pod, spans: phaseSpans(pod, now) }));
  const position = new Map(gang?.groups.flatMap((group) => group.pods).map((pod, at) => [pod, at]));
  const rank = ({ pod }: Bar) => position.get(pod.id) ?? position.size;
  bars.sort((one, other) => rank(one) - rank(other) || (one.pod.id < other.pod.id ? -1 : 1));
  const ends = bars.map((bar) => bar.spans.at(-1)?.to ?? from);
  const placed = gang ? placedAt(gang, first) : latest(first.map((pod) => pod.scheduled));
  const endedAt = readyAt === undefined && later === 0 ? latest(first.map((pod) => pod.finished)) : undefined;
  const to = Math.max(readyAt ?? from, placed ?? from, from + 1, ...ends);
  const milestones: Timeline["milestones"] = [{ name: "applied", at: from }];
  if (placed !== undefined && placed >= from) milestones.push({ name: "placed", at: placed });
  if (readyAt !== undefined && readyAt >= from) milestones.push({ name: "ready", at: readyAt });
  if (endedAt !== undefined) milestones.push({ name: "ended", at: endedAt });
  return { from, to, milestones, bars, later };
}

/** Round times for an axis of `span` seconds: at most `max`, from 0. Timestamps in the cluster are whole seconds. */
export function ticks(span: number, max = 6): number[] {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800];
  const step = steps.find((each) => span / each <= max) ?? span / max;
  const found: number[] = [];
  for (let at = 0; at <= span; at += step) found.push(Number(at.toFixed(3)));
  return found;
}

/** A time of an axis, in the unit of its steps: "90 s", "45 min". */
export function formatTick(tick: number, step: number): string {
  if (tick === 0) return "0";
  const [unit, name] = step < 60 ? [1, "s"] : step < 3600 ? [60, "min"] : step < 86400 ? [3600, "h"] : [86400, "d"];
  return `${number(tick / unit)} ${name}`;
}

/** The common prefix of names, up to a hyphen; empty for a single name. */
export function commonPrefix(names: readonly string[]): string {
  const [first = "", ...others] = names;
  if (others.length === 0) return "";
  let end = first.length;
  for (const name of others) while (!name.startsWith(first.slice(0, end))) end--;
  return first.slice(0, first.slice(0, end).lastIndexOf("-") + 1);
}

function phaseSpans(pod: PodRow, now: number): PhaseSpan[] {
  const over = pod.finished;
  const points: [Phase, number | undefined, number | undefined][] = [
    ["pending", pod.created, pod.scheduled],
    ["starting", pod.scheduled, pod.started],
    // The Ready condition of a finished pod no longer has the time at which it became ready.
    [over !== undefined && pod.readyAt === undefined ? "running" : "unready", pod.started, pod.readyAt],
  ];
  const found: PhaseSpan[] = [];
  for (const [step, begin, end] of points) {
    if (begin === undefined) break;
    const to = end ?? over ?? now;
    found.push({ phase: step, from: begin, to: Math.max(begin, to), open: end === undefined && over === undefined });
    if (end === undefined) break;
  }
  return found;
}

/** When every group had enough bound pods: from their conditions, or the gang's, which is updated later. */
function placedAt(gang: GangRow, pods: readonly PodRow[]): number | undefined {
  if (gang.scheduled === undefined) return undefined;
  const times = new Map(pods.map((pod) => [pod.id, pod.scheduled ?? Infinity]));
  const enough = gang.groups.map(({ min, pods: ids }) => {
    const sorted = ids.map((id) => times.get(id) ?? Infinity).sort((one, other) => one - other);
    return min > 0 ? (sorted[min - 1] ?? Infinity) : 0;
  });
  return Math.min(gang.scheduled, Math.max(0, ...enough) || Infinity);
}

/** Pods without a gang belong to the same startup if each was created before its predecessors were ready. */
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
