/**
 * Who holds what: nodes with their GPUs, and every GPU with its holders.
 *
 * It watches the tables row by row and only marks the nodes that a change
 * concerns; `take` works those out, once per frame however many changes there were.
 */
import type { NodeRow, PodRow, UsageRow } from "../rows";

export interface Holder {
  pod: PodRow;
  /** Part of the GPU, 0 to 1. */
  share: number;
}

export interface FleetNode {
  row: NodeRow;
  usage: UsageRow | undefined;
  /** Pods that are here and have not finished, by id. */
  pods: Map<string, PodRow>;
  /** Holders of each GPU, by its index. */
  gpus: Holder[][];
  /** GPUs held, in shares: 3.5 of 8. */
  held: number;
  /** Counts up whenever something about this node changes. */
  version: number;
}

export interface Changes {
  /** Nodes to paint again. */
  nodes: Set<string>;
  /** Nodes where GPUs were given or taken back. */
  given: Set<string>;
  /** True if nodes came, went or moved: the map must be laid out anew. */
  shape: boolean;
}

export class Holdings {
  readonly nodes = new Map<string, FleetNode>();
  /** Counts up whenever nodes came, went or moved. */
  shapes = 0;
  /** Pods told of before the node they are on. */
  readonly #early = new Map<string, Map<string, PodRow>>();
  #touched = new Set<string>();
  #shape = false;

  /** A node came, went or was replaced. */
  node(after: NodeRow | undefined, before: NodeRow | undefined): void {
    const id = (after ?? before)?.id;
    if (id === undefined) return;
    const known = this.nodes.get(id);
    this.#touched.add(id);
    if (!after) {
      if (known?.pods.size) this.#early.set(id, known.pods);
      this.nodes.delete(id);
      this.#shape = true;
    } else if (known) {
      if (moved(known.row, after)) this.#shape = true;
      known.row = after;
    } else {
      const pods = this.#early.get(id) ?? new Map<string, PodRow>();
      this.#early.delete(id);
      this.nodes.set(id, { row: after, usage: undefined, pods, gpus: [], held: 0, version: 0 });
      this.#shape = true;
    }
  }

  /** A pod came, went or was replaced. */
  pod(after: PodRow | undefined, before: PodRow | undefined): void {
    if (before?.node && before.node !== after?.node) this.#podsOf(before.node).delete(before.id);
    if (!after?.node) return;
    if (finished(after)) this.#podsOf(after.node).delete(after.id);
    else this.#podsOf(after.node).set(after.id, after);
  }

  /** What a node uses came, went or was replaced. */
  usage(after: UsageRow | undefined, before: UsageRow | undefined): void {
    const node = this.nodes.get((after ?? before)?.id ?? "");
    if (!node) return;
    node.usage = after;
    this.#touched.add(node.row.id);
  }

  /** Works out what was touched since the last time, and says what that was. */
  take(): Changes {
    const changes = { nodes: this.#touched, given: new Set<string>(), shape: this.#shape };
    if (this.#shape) this.shapes++;
    this.#touched = new Set();
    this.#shape = false;
    for (const id of changes.nodes) {
      const node = this.nodes.get(id);
      if (node && seat(node)) changes.given.add(id);
    }
    return changes;
  }

  #podsOf(id: string): Map<string, PodRow> {
    const node = this.nodes.get(id);
    if (node) {
      this.#touched.add(id);
      return node.pods;
    }
    let pods = this.#early.get(id);
    if (!pods) this.#early.set(id, (pods = new Map()));
    return pods;
  }
}

/** Name of a workload as people say it: "disagg" of "PodCliqueSet/default/disagg". */
export function ownerName(workload: string): string {
  return workload.slice(workload.lastIndexOf("/") + 1);
}

/** Who holds GPUs here, most first. */
export function ownersOf(node: FleetNode): [string, number][] {
  const owners = new Map<string, number>();
  for (const holders of node.gpus) {
    for (const { pod, share } of holders) {
      owners.set(pod.workload, (owners.get(pod.workload) ?? 0) + share);
    }
  }
  return [...owners].sort((a, b) => b[1] - a[1]);
}

function moved(before: NodeRow, now: NodeRow): boolean {
  return (
    before.zone !== now.zone ||
    before.block !== now.block ||
    before.rack !== now.rack ||
    before.gpus !== now.gpus ||
    before.clique !== now.clique ||
    before.product !== now.product
  );
}

function finished(pod: PodRow): boolean {
  return pod.phase === "Succeeded" || pod.phase === "Failed";
}

/** Gives each GPU of the node its holders; true if they are not those of before. */
function seat(node: FleetNode): boolean {
  const count = node.row.gpus ?? 0;
  const gpus: Holder[][] = Array.from({ length: count }, () => []);
  const unseated: PodRow[] = [];
  for (const pod of node.pods.values()) {
    if (pod.devices?.length) {
      for (const [index, share] of pod.devices) gpus[index]?.push({ pod, share });
    } else if (pod.gpus) {
      unseated.push(pod);
    }
  }
  // Other device plugins do not say which GPU a pod was given: show it on the first free ones.
  let next = 0;
  for (const pod of unseated) {
    for (let wanted = pod.gpus ?? 0; wanted > 0 && next < count; next++) {
      const holders = gpus[next];
      if (!holders || holders.length > 0) continue;
      holders.push({ pod, share: 1 });
      wanted--;
    }
  }
  const before = node.gpus;
  node.gpus = gpus;
  node.held = 0;
  for (const pod of node.pods.values()) node.held += pod.held ?? 0;
  node.version++;
  return before.length === count && gpus.some((holders, gpu) => !sameHolders(holders, before[gpu]));
}

function sameHolders(one: readonly Holder[], other: readonly Holder[] | undefined): boolean {
  return (
    one.length === other?.length &&
    one.every(({ pod, share }, at) => pod.id === other[at]?.pod.id && share === other[at]?.share)
  );
}

/** Part of one GPU that is held, 0 to 1. */
export function heldShare(holders: readonly Holder[]): number {
  let sum = 0;
  for (const holder of holders) sum += holder.share;
  return Math.min(1, sum);
}
