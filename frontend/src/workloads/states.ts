/** States of pods, gangs and workloads. */
import type { CliqueRow, GangRow, OwnerRow, PodRow, SetRow } from "../data/rows";
import { serverInfo } from "../data/stream";
import type { Tone } from "../ui/state";

/** All states, those that need attention first; computed in src/kilonova/console/rows/workloads.py. */
export const states = {
  Failed: "bad",
  Degraded: "warn",
  Pending: "wait",
  Partial: "wait",
  Creating: "wait",
  Starting: "busy",
  Updating: "busy",
  Terminating: "idle",
  Running: "good",
  Suspended: "idle",
  Completed: "idle",
  Empty: "idle",
} as const satisfies Record<string, Tone>;

export type StateName = keyof typeof states;

/** The objects of a workload: its controller, gangs, cliques and pods. */
export interface WorkloadParts {
  set?: SetRow | undefined;
  owner?: OwnerRow | undefined;
  gangs: readonly GangRow[];
  cliques: readonly CliqueRow[];
  pods: readonly PodRow[];
}

/** Whether a pod has succeeded or failed. */
export function hasFinished(pod: PodRow): boolean {
  return pod.phase === "Succeeded" || pod.phase === "Failed";
}

const DEFAULT_SCHEDULER = "default-scheduler";

/** Whether a pod counts in its queue: not if it belongs to another scheduler, is gated, terminating or finished. */
export function isQueued(pod: PodRow): boolean {
  const counts = serverInfo.value?.schedulers.includes(pod.scheduler ?? DEFAULT_SCHEDULER) ?? false;
  return counts && !["SchedulingGated", "Terminating"].includes(pod.state) && !hasFinished(pod);
}

/** The tone of a pod's state. */
export function podTone(pod: PodRow): Tone {
  if (pod.failing) return "bad";
  if (pod.phase === "Succeeded" || pod.state === "Terminating") return "idle";
  if (!pod.node) return "wait";
  return pod.ready ? "good" : "busy";
}

/** The tone of a gang's phase. */
export function gangTone(gang: GangRow): Tone {
  const tones: Record<string, Tone> = { Running: "good", Starting: "busy", Failed: "bad", Succeeded: "idle" };
  return tones[gang.phase] ?? "wait";
}

/** Whether a gang has not been placed. */
export function isUnplaced(gang: GangRow): boolean {
  return gang.phase === "Pending" || gang.phase === "";
}

/** The first sentence of an explanation, shortened; the details show the rest. */
export function firstSentence(text: string): string {
  const end = text.search(/[.;](\s|$)/);
  return shortenText(end < 0 ? text : text.slice(0, end));
}

/** An explanation with "8 GPUs" for "8 nvidia.com/gpu" and the like, capitalised. */
export function shortenText(text: string): string {
  const short = text
    .replace(/\b(\d+) Insufficient nvidia\.com\/gpu\b/g, "$1 with too few GPUs")
    .replace(/\b(\d+) Insufficient (\S+?)(?=[,.;]?(\s|$))/g, "$1 with too little $2")
    .replace(
      /\b(\d+)( more)? nvidia\.com\/gpu( more)?\b/g,
      (_, count: string, before = "", after = "") => `${count}${before}${after} ${count === "1" ? "GPU" : "GPUs"}`,
    )
    .replace(/ container=(\S+) pod=\S+_\S+\([0-9a-f-]{36}\)/g, " container $1");
  return short.charAt(0).toUpperCase() + short.slice(1);
}
