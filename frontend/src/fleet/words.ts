/** Nodes and GPUs in words. */
import { counted, exact } from "../format";
import type { NodeRow } from "../rows";
import type { Spot } from "./hit";
import { heldShare, ownerName, ownersOf, type FleetNode } from "./holdings";
import { nodeState, type State } from "./state";

/** Where a node is: "rack h100-rack-0, block b1, zone z1". */
export function placeOf(node: FleetNode): string {
  const { zone, block, rack } = node.row;
  return [rack && `rack ${rack}`, block && `block ${block}`, zone && `zone ${zone}`].filter(Boolean).join(", ");
}

/** "h100-3 in rack h100-rack-0: 8 of 8 GPUs held by disagg." */
export function describe(node: FleetNode, spot: Spot): string {
  const { row } = node;
  const state = nodeState(row);
  const where = row.rack ? ` in rack ${row.rack}` : row.zone ? ` in zone ${row.zone}` : "";
  const trouble = state === "healthy" ? "" : ` ${row.problem ?? capital(state)}.`;
  if (spot.gpu !== undefined) return `GPU ${spot.gpu} of ${row.id}: ${gpuWords(node, spot.gpu)}.${trouble}`;
  if (!row.gpus) return `${row.id}${where}: no GPUs, ${counted(node.pods.size, "pod")}.${trouble}`;
  const owners = ownersOf(node).map(([workload]) => ownerName(workload));
  const by = owners.length ? ` held by ${listed(owners)}` : " held";
  return `${row.id}${where}: ${exact(node.held)} of ${row.gpus} GPUs${by}.${trouble}`;
}

/** Who holds one GPU: "held by disagg", "30 % held by a, 20 % by b", "free", "lost". */
export function gpuWords(node: FleetNode, gpu: number): string {
  const holders = node.gpus[gpu] ?? [];
  const lost = node.row.lost?.includes(gpu) ? "lost, " : "";
  if (holders.length === 0) return `${lost}free`;
  if (holders.length === 1 && heldShare(holders) >= 1) return `${lost}held by ${ownerName(holders[0]?.pod.workload ?? "")}`;
  const parts = holders.map(({ pod, share }) => `${Math.round(share * 100)} % by ${ownerName(pod.workload)}`);
  return `${lost}held ${listed(parts)}`;
}

/** The states of a node as `kilonova nodes` has them: "Ready, Cordoned". */
export function stateWords(row: NodeRow): string {
  return row.state.replaceAll(",", ", ");
}

/** What people call the state by which a node is coloured. */
export function stateWord(state: State): string {
  return state === "healthy" ? "Ready" : state === "lost" ? "GPU lost" : capital(state);
}

export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function listed(names: string[]): string {
  if (names.length > 4) return `${names.slice(0, 3).join(", ")} and ${names.length - 3} others`;
  return names.length < 2 ? (names[0] ?? "") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}
