/** The state of a node, and of its GPUs. */
import type { NodeRow } from "../data/rows";
import type { Tone } from "../ui/state";

export const STATES = ["healthy", "lost", "not ready", "cordoned", "unknown"] as const;
export type State = (typeof STATES)[number];

/** The tone of each state's mark. */
export const STATE_TONE: Record<State, Tone> = {
  healthy: "good",
  lost: "bad",
  "not ready": "warn",
  cordoned: "wait",
  unknown: "warn",
};

/** The worst state of a node, by which it is coloured; "lost" if any of its GPUs is. */
export function nodeState(row: NodeRow): State {
  if (!row.ready) return row.unknown ? "unknown" : "not ready";
  if (row.lost?.length) return "lost";
  return row.cordoned ? "cordoned" : "healthy";
}

/** The state of one GPU: "lost", else that of its node. */
export function gpuState(row: NodeRow, gpu: number): State {
  if (row.lost?.includes(gpu)) return "lost";
  const state = nodeState(row);
  if (state !== "lost") return state;
  return row.cordoned ? "cordoned" : "healthy";
}
