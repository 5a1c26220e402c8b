/** The numbers of the fleet: what there is, what is held, by whom, and what it costs. */
import { heldShare, type FleetNode } from "./holdings";
import { gpuState, nodeState, STATES, type State } from "./state";

export interface Totals {
  nodes: number;
  ready: number;
  gpus: number;
  held: number;
  /** USD per hour of GPUs that are held, and of those that are not. */
  spent: number;
  idle: number;
  /** GPUs without a known price. */
  unpriced: number;
  /** Lowest and highest price of a GPU. */
  prices: [number, number];
  /** Workloads and the GPUs they hold, most first. */
  owners: [string, number][];
  /** GPUs by state; a node without GPUs counts as none. */
  states: Record<State, number>;
  /** Nodes by state. */
  nodeStates: Record<State, number>;
  /** Mean of what nodes say they use of their cores; undefined where none says. */
  cpu: number | undefined;
}

/** Adds the nodes up. */
export function totalsOf(nodes: Iterable<FleetNode>): Totals {
  const totals: Totals = {
    nodes: 0, ready: 0, gpus: 0, held: 0, spent: 0, idle: 0, unpriced: 0, prices: [Infinity, 0],
    owners: [], states: none(), nodeStates: none(), cpu: undefined,
  };
  const owners = new Map<string, number>();
  let measured = 0;
  let cpu = 0;
  for (const node of nodes) {
    const { row } = node;
    totals.nodes++;
    if (row.ready) totals.ready++;
    totals.gpus += node.gpus.length;
    totals.held += node.held;
    totals.nodeStates[nodeState(row)]++;
    addMoney(totals, node);
    if (node.usage) {
      measured++;
      cpu += node.usage.cpu;
    }
    node.gpus.forEach((holders, gpu) => {
      totals.states[gpuState(row, gpu)]++;
      const all = heldShare(holders);
      let sum = 0;
      for (const holder of holders) sum += holder.share;
      for (const { pod, share } of holders) {
        owners.set(pod.workload, (owners.get(pod.workload) ?? 0) + (share * all) / sum);
      }
    });
  }
  totals.owners = [...owners].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  if (measured > 0) totals.cpu = cpu / measured;
  return totals;
}

function addMoney(totals: Totals, node: FleetNode): void {
  const { price } = node.row;
  if (price === undefined) {
    totals.unpriced += node.gpus.length;
    return;
  }
  totals.spent += node.held * price;
  totals.idle += (node.gpus.length - node.held) * price;
  if (node.gpus.length > 0) {
    totals.prices = [Math.min(totals.prices[0], price), Math.max(totals.prices[1], price)];
  }
}

function none(): Record<State, number> {
  return Object.fromEntries(STATES.map((state) => [state, 0])) as Record<State, number>;
}
