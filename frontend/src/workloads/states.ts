/** What state pods, gangs and whole workloads are in, in people's words. */
import type { CliqueRow, GangRow, PodRow, SetRow } from "../rows";
import type { Tone } from "../ui/state";

export type StateName =
  | "Failed" | "Degraded" | "Waiting" | "Partial" | "Starting" | "Updating" | "Stopping" | "Running" | "Done" | "Empty";

/** All states, those that need a look first. */
export const states: Record<StateName, Tone> = {
  Failed: "bad",
  Degraded: "warn",
  Waiting: "wait",
  Partial: "wait",
  Starting: "busy",
  Updating: "busy",
  Stopping: "idle",
  Running: "good",
  Done: "idle",
  Empty: "idle",
};

/** What is known of a workload: its set if it is one, its gangs, its pods. */
export interface Parts {
  set?: SetRow | undefined;
  gangs: readonly GangRow[];
  cliques: readonly CliqueRow[];
  pods: readonly PodRow[];
}

/** A pod that is broken rather than late. */
export function isBroken(pod: PodRow): boolean {
  return /BackOff|Err|OOMKilled|Invalid|Failed|Lost|Evicted|Unexpected/.test(pod.state) || pod.phase === "Failed";
}

/** A pod that is over. */
export function isOver(pod: PodRow): boolean {
  return pod.phase === "Succeeded" || pod.phase === "Failed";
}

/** How a pod's state is to be taken. */
export function podTone(pod: PodRow): Tone {
  if (isBroken(pod)) return "bad";
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

/** How many pods a workload should have. */
export function wanted({ set, cliques, pods }: Parts): number {
  if (!set) return pods.filter((pod) => pod.phase !== "Failed").length || pods.length;
  if (cliques.length) return sum(cliques.map((clique) => clique.replicas));
  return set.replicas * sum(set.cliques.map((clique) => clique.replicas));
}

/** The state of a whole workload. */
export function stateOf(parts: Parts): StateName {
  const { set, gangs, pods } = parts;
  const alive = pods.filter((pod) => !isOver(pod));
  const ready = alive.filter((pod) => pod.ready).length;
  if (set && wanted(parts) === 0) return alive.length ? "Stopping" : "Empty";
  if (pods.length && alive.length === 0) return pods.every((pod) => pod.phase === "Succeeded") ? "Done" : "Failed";
  if (alive.length && alive.every((pod) => pod.state === "Terminating")) return "Stopping";
  if (gangs.some((gang) => gang.phase === "Failed")) return ready ? "Degraded" : "Failed";
  if (alive.some(isBroken)) return ready ? "Degraded" : "Failed";
  if (waitsAnywhere(parts)) return ready || alive.some((pod) => pod.node) ? "Partial" : "Waiting";
  if (set?.updating) return "Updating";
  if (set && ready < wanted(parts)) return set.problem && ready ? "Degraded" : "Starting";
  return ready < alive.length ? "Starting" : "Running";
}

/** Why it is not running as it should, in words; nothing where there is nothing to say. */
export function whyOf(parts: Parts, state: StateName): string {
  const { set, gangs, pods } = parts;
  switch (state) {
    case "Failed":
    case "Degraded": {
      const broken = pods.filter(isBroken);
      const first = broken[0];
      if (!first) return set?.problem ?? "";
      const many = broken.length > 1 ? `${broken.length} pods: ` : "";
      return `${many}${first.state}${first.message ? `, ${first.message}` : ""}`;
    }
    case "Waiting":
    case "Partial": {
      const told = gangs.find((gang) => waitsForPlace(gang) && gang.waits)?.waits;
      const pod = pods.find((each) => !each.node && !isOver(each) && (each.message || each.reason));
      return told ?? pod?.message ?? pod?.reason ?? "not looked at yet";
    }
    case "Starting":
    case "Updating":
      return tally(pods.filter((pod) => !pod.ready && !isOver(pod)));
    default:
      return set?.problem ?? "";
  }
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

function waitsAnywhere({ gangs, pods }: Parts): boolean {
  if (gangs.some(waitsForPlace)) return true;
  return pods.some((pod) => !pod.node && !isOver(pod) && pod.phase === "Pending");
}

function tally(pods: readonly PodRow[]): string {
  const counts = new Map<string, number>();
  for (const pod of pods) {
    const state = pod.state === "Running" ? "not ready" : pod.state;
    counts.set(state, (counts.get(state) ?? 0) + 1);
  }
  return [...counts].map(([state, count]) => `${count} ${state}`).join(", ");
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
