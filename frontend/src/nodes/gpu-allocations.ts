/**
 * GPU allocations: nodes with their GPUs, and each GPU with the pods that hold it.
 *
 * Changes of rows only mark the affected nodes; `applyChanges` recomputes those, once per
 * frame however many changes there were.
 */
import type { GpuMetricsRow, GpuReading, NodeRow, PodRow, UsageRow } from "../data/rows";

export interface GpuHolder {
  pod: PodRow;
  /** Share of the GPU, 0 to 1. */
  share: number;
}

export interface FleetNode {
  row: NodeRow;
  usage: UsageRow | undefined;
  /** Live metrics of its GPUs, by index, where they exist. */
  readings: ReadonlyMap<number, GpuReading> | undefined;
  /** Pods on the node that have not finished, by id. */
  pods: Map<string, PodRow>;
  /** Holders of each GPU, by its index. */
  gpus: GpuHolder[][];
  /** Allocated GPUs, with shares: 3.5 of 8. */
  allocated: number;
  /** Incremented with each change of this node. */
  version: number;
}

export interface AllocationChanges {
  /** Nodes to repaint. */
  nodes: Set<string>;
  /** Nodes where GPUs were allocated or released. */
  allocations: Set<string>;
  /** True if nodes were added, removed or moved: the map needs a new layout. */
  topology: boolean;
}

export class GpuAllocations {
  readonly nodes = new Map<string, FleetNode>();
  /** Incremented when nodes are added, removed or moved. */
  topologyVersion = 0;
  /** Pods received before their node. */
  readonly #podsOfUnknownNodes = new Map<string, Map<string, PodRow>>();
  #changedNodes = new Set<string>();
  #topologyChanged = false;

  /** A node was added, removed or replaced. */
  onNode(after: NodeRow | undefined, before: NodeRow | undefined): void {
    const id = (after ?? before)?.id;
    if (id === undefined) return;
    const known = this.nodes.get(id);
    this.#changedNodes.add(id);
    if (!after) {
      if (known?.pods.size) this.#podsOfUnknownNodes.set(id, known.pods);
      this.nodes.delete(id);
      this.#topologyChanged = true;
    } else if (known) {
      if (topologyDiffers(known.row, after)) this.#topologyChanged = true;
      known.row = after;
    } else {
      const pods = this.#podsOfUnknownNodes.get(id) ?? new Map<string, PodRow>();
      this.#podsOfUnknownNodes.delete(id);
      this.nodes.set(id, {
        row: after,
        usage: undefined,
        readings: undefined,
        pods,
        gpus: [],
        allocated: 0,
        version: 0,
      });
      this.#topologyChanged = true;
    }
  }

  /** A pod was added, removed or replaced. */
  onPod(after: PodRow | undefined, before: PodRow | undefined): void {
    if (before?.node && before.node !== after?.node) this.#podsOf(before.node).delete(before.id);
    if (!after?.node) return;
    if (hasFinished(after)) this.#podsOf(after.node).delete(after.id);
    else this.#podsOf(after.node).set(after.id, after);
  }

  /** The usage of a node was added, removed or replaced. */
  onUsage(after: UsageRow | undefined, before: UsageRow | undefined): void {
    const node = this.nodes.get((after ?? before)?.id ?? "");
    if (!node) return;
    node.usage = after;
    this.#changedNodes.add(node.row.id);
  }

  /** The metrics of a node's GPUs were added, removed or replaced. */
  onReadings(after: GpuMetricsRow | undefined, before: GpuMetricsRow | undefined): void {
    const node = this.nodes.get((after ?? before)?.id ?? "");
    if (!node) return;
    node.readings = after && new Map(after.gpus.map((reading) => [reading.index, reading]));
    this.#changedNodes.add(node.row.id);
  }

  /** Recomputes the nodes changed since the last call, and returns them. */
  applyChanges(): AllocationChanges {
    const changes = { nodes: this.#changedNodes, allocations: new Set<string>(), topology: this.#topologyChanged };
    if (this.#topologyChanged) this.topologyVersion++;
    this.#changedNodes = new Set();
    this.#topologyChanged = false;
    for (const id of changes.nodes) {
      const node = this.nodes.get(id);
      if (node && assignHolders(node)) changes.allocations.add(id);
    }
    return changes;
  }

  #podsOf(id: string): Map<string, PodRow> {
    const node = this.nodes.get(id);
    if (node) {
      this.#changedNodes.add(id);
      return node.pods;
    }
    let pods = this.#podsOfUnknownNodes.get(id);
    if (!pods) {
      pods = new Map();
      this.#podsOfUnknownNodes.set(id, pods);
    }
    return pods;
  }
}

/** The name of a workload: "disagg" of "PodCliqueSet/default/disagg". */
export function ownerName(workload: string): string {
  return workload.slice(workload.lastIndexOf("/") + 1);
}

/** Workloads that hold GPUs of a node with their shares, largest first. */
export function allocationsByOwner(node: FleetNode): [string, number][] {
  const owners = new Map<string, number>();
  for (const holders of node.gpus) {
    for (const { pod, share } of holders) {
      owners.set(pod.workload, (owners.get(pod.workload) ?? 0) + share);
    }
  }
  return [...owners].sort((a, b) => b[1] - a[1]);
}

function topologyDiffers(before: NodeRow, now: NodeRow): boolean {
  return (
    before.zone !== now.zone ||
    before.block !== now.block ||
    before.rack !== now.rack ||
    before.gpus !== now.gpus ||
    before.nvlinkDomain !== now.nvlinkDomain ||
    before.product !== now.product
  );
}

function hasFinished(pod: PodRow): boolean {
  return pod.phase === "Succeeded" || pod.phase === "Failed";
}

/** Sets the holders of each GPU of a node; true if they changed. */
function assignHolders(node: FleetNode): boolean {
  const count = node.row.gpus ?? 0;
  const gpus: GpuHolder[][] = Array.from({ length: count }, () => []);
  const podsWithoutDevices: PodRow[] = [];
  for (const pod of node.pods.values()) {
    if (pod.devices?.length) {
      for (const [index, share] of pod.devices) gpus[index]?.push({ pod, share });
    } else if (pod.gpus) {
      podsWithoutDevices.push(pod);
    }
  }
  // Other device plugins do not report which GPU a pod uses: show it on the first free ones.
  let next = 0;
  for (const pod of podsWithoutDevices) {
    for (let remaining = pod.gpus ?? 0; remaining > 0 && next < count; next++) {
      const holders = gpus[next];
      if (!holders || holders.length > 0) continue;
      holders.push({ pod, share: 1 });
      remaining--;
    }
  }
  const before = node.gpus;
  node.gpus = gpus;
  node.allocated = 0;
  for (const pod of node.pods.values()) node.allocated += pod.allocatedGpus ?? 0;
  node.version++;
  return before.length === count && gpus.some((holders, gpu) => !sameHolders(holders, before[gpu]));
}

function sameHolders(one: readonly GpuHolder[], other: readonly GpuHolder[] | undefined): boolean {
  return (
    one.length === other?.length &&
    one.every(({ pod, share }, at) => pod.id === other[at]?.pod.id && share === other[at]?.share)
  );
}

/** Allocated share of one GPU, 0 to 1. */
export function allocatedShare(holders: readonly GpuHolder[]): number {
  let sum = 0;
  for (const holder of holders) sum += holder.share;
  return Math.min(1, sum);
}
