/** How a node is, in one word, and how its GPUs are. */
import type { NodeRow } from "../rows";
import type { Tone } from "../ui/state";

export const STATES = ["healthy", "lost", "not ready", "cordoned", "unknown"] as const;
export type State = (typeof STATES)[number];

/** How each is shown where states have a mark. */
export const STATE_TONE: Record<State, Tone> = {
  healthy: "good", lost: "bad", "not ready": "warn", cordoned: "wait", unknown: "warn",
};

/** How a node is coloured: by the worst of its states; "lost" if any of its GPUs is. */
export function nodeState(row: NodeRow): State {
  if (!row.ready) return row.unknown ? "unknown" : "not ready";
  if (row.lost?.length) return "lost";
  return row.cordoned ? "cordoned" : "healthy";
}

/** The state of one GPU: that of its node, unless it is itself lost. */
export function gpuState(row: NodeRow, gpu: number): State {
  if (row.lost?.includes(gpu)) return "lost";
  const state = nodeState(row);
  if (state !== "lost") return state;
  return row.cordoned ? "cordoned" : "healthy";
}
