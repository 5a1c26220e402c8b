/** Texts about a node or GPU of the map, for screen readers. */
import { formatExact, pluralize } from "../lib/format";
import { allocatedShare, allocationsByOwner, type FleetNode, ownerName } from "../nodes/gpu-allocations";
import { gpuState, nodeState } from "../nodes/state";
import { capitalise, readingText } from "../nodes/text";
import type { HitTarget } from "./layout/hit-test";

/** "h100-3 in rack h100-rack-0: 8 of 8 GPUs allocated to disagg." */
export function describeTarget(node: FleetNode, target: HitTarget): string {
  const { row } = node;
  const state = target.gpu === undefined ? nodeState(row) : gpuState(row, target.gpu);
  const where = row.rack ? ` in rack ${row.rack}` : row.zone ? ` in zone ${row.zone}` : "";
  const reason = target.gpu === undefined ? "" : row.devices?.[target.gpu]?.reason;
  const problem = state === "healthy" ? "" : ` ${reason || (row.problem ?? capitalise(state))}.`;
  if (target.gpu !== undefined) {
    const reading = node.readings?.get(target.gpu);
    const measured = reading ? ` ${capitalise(readingText(reading, row.gpuMemory))}.` : "";
    return `GPU ${target.gpu} of ${row.id}: ${gpuText(node, target.gpu)}.${measured}${problem}`;
  }
  if (!row.gpus) return `${row.id}${where}: no GPUs, ${pluralize(node.pods.size, "pod")}.${problem}`;
  const owners = allocationsByOwner(node).map(([workload]) => ownerName(workload));
  const by = owners.length ? ` allocated to ${joinNames(owners)}` : " allocated";
  return `${row.id}${where}: ${formatExact(node.allocated)} of ${row.gpus} GPUs${by}.${problem}`;
}

/** The holders of one GPU: "allocated to disagg", "allocated 30 % to a and 20 % to b", "free", "lost". */
function gpuText(node: FleetNode, gpu: number): string {
  const holders = node.gpus[gpu] ?? [];
  const lost = node.row.lost?.includes(gpu) ? "lost, " : "";
  if (holders.length === 0) return `${lost}free`;
  if (holders.length === 1 && allocatedShare(holders) >= 1)
    return `${lost}allocated to ${ownerName(holders[0]?.pod.workload ?? "")}`;
  const parts = holders.map(({ pod, share }) => `${Math.round(share * 100)} % to ${ownerName(pod.workload)}`);
  return `${lost}allocated ${joinNames(parts)}`;
}

function joinNames(names: string[]): string {
  if (names.length > 4) return `${names.slice(0, 3).join(", ")} and ${names.length - 3} others`;
  return names.length < 2 ? (names[0] ?? "") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}
