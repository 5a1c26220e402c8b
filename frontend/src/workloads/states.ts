/** What state pods, gangs and whole workloads are in, in people's words. */
import type { CliqueRow, GangRow, OwnerRow, PodRow, SetRow } from "../rows";
import type { Tone } from "../ui/state";

/** All states, those that need a look first; src/kilonova/console/workloadrows.py says which is when. */
export const states = {
  Failed: "bad",
  Degraded: "warn",
  Waiting: "wait",
  Partial: "wait",
  Pending: "wait",
  Starting: "busy",
  Updating: "busy",
  Terminating: "idle",
  Running: "good",
  Suspended: "idle",
  Completed: "idle",
  Empty: "idle",
} as const satisfies Record<string, Tone>;

export type StateName = keyof typeof states;

/** What is known of a workload: what makes its pods, its gangs, its pods. */
export interface Parts {
  set?: SetRow | undefined;
  owner?: OwnerRow | undefined;
  gangs: readonly GangRow[];
  cliques: readonly CliqueRow[];
  pods: readonly PodRow[];
}

/** A pod that is over. */
export function isOver(pod: PodRow): boolean {
  return pod.phase === "Succeeded" || pod.phase === "Failed";
}

/** How a pod's state is to be taken. */
export function podTone(pod: PodRow): Tone {
  if (pod.broken) return "bad";
  if (pod.phase === "Succeeded" || pod.state === "Terminating") return "idle";
  if (!pod.node) return "wait";
  return pod.ready ? "good" : "busy";
}

/** How a gang's phase is to be taken. */
export function gangTone(gang: GangRow): Tone {
  const tones: Record<string, Tone> = { Running: "good", Starting: "busy", Failed: "bad", Succeeded: "idle" };
  return tones[gang.phase] ?? "wait";
}

/** A gang that has no place. */
export function waitsForPlace(gang: GangRow): boolean {
  return gang.phase === "Pending" || gang.phase === "";
}

/** The first sentence of an explanation, in short words: the rest is for the details. */
export function firstSentence(text: string): string {
  const end = text.search(/[.;](\s|$)/);
  return shortWords(end < 0 ? text : text.slice(0, end));
}

/** An explanation with "8 GPUs" for "8 nvidia.com/gpu" and the like, from a capital letter. */
export function shortWords(text: string): string {
  const short = text
    .replace(/\b(\d+) Insufficient nvidia\.com\/gpu\b/g, "$1 with too few GPUs")
    .replace(/\b(\d+) Insufficient (\S+?)(?=[,.;]?(\s|$))/g, "$1 with too little $2")
    .replace(/\b(\d+)( more)? nvidia\.com\/gpu( more)?\b/g, (_, count: string, before = "", after = "") => `${count}${before}${after} ${count === "1" ? "GPU" : "GPUs"}`)
    .replace(/ container=(\S+) pod=\S+_\S+\([0-9a-f-]{36}\)/g, " container $1");
  return short.charAt(0).toUpperCase() + short.slice(1);
}
