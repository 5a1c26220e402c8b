/** Totals of the fleet: capacity, allocation by owner, states, and cost. */
import { allocatedShare, type FleetNode } from "./gpu-allocations";
import { gpuState, nodeState, STATES, type State } from "./state";

export interface Totals {
  nodes: number;
  ready: number;
  gpus: number;
  allocated: number;
  /** USD per hour of allocated and of idle GPUs. */
  spent: number;
  idle: number;
  /** USD per hour of nodes without GPUs. */
  cpuNodes: number;
  /** GPUs, and nodes without GPUs, whose price is not known. */
  unpriced: number;
  unpricedNodes: number;
  /** Lowest and highest price of a GPU. */
  prices: [number, number];
  /** Workloads and the GPUs they hold, largest first. */
  owners: [string, number][];
  /** GPUs by state. */
  states: Record<State, number>;
  /** Nodes by state. */
  nodeStates: Record<State, number>;
  /** Mean CPU usage of the nodes that report it; undefined if none does. */
  cpu: number | undefined;
  /** Mean utilisation of the GPUs that report it, and the sum of their power in watts; undefined if none does. */
  utilisation: number | undefined;
  power: number | undefined;
  /** GPUs that report their utilisation. */
  measured: number;
}

/** Sums over nodes. */
export function totalsOf(nodes: Iterable<FleetNode>): Totals {
  const totals: Totals = {
    nodes: 0,
    ready: 0,
    gpus: 0,
    allocated: 0,
    spent: 0,
    idle: 0,
    cpuNodes: 0,
    unpriced: 0,
    unpricedNodes: 0,
    prices: [Infinity, 0],
    owners: [],
    states: zeroByState(),
    nodeStates: zeroByState(),
    cpu: undefined,
    utilisation: undefined,
    power: undefined,
    measured: 0,
  };
  const owners = new Map<string, number>();
  let measured = 0;
  let cpu = 0;
  for (const node of nodes) {
    const { row } = node;
    totals.nodes++;
    if (row.ready) totals.ready++;
    totals.gpus += node.gpus.length;
    totals.allocated += node.allocated;
    totals.nodeStates[nodeState(row)]++;
    addMoney(totals, node);
    if (node.usage) {
      measured++;
      cpu += node.usage.cpu;
    }
    addReadings(totals, node);
    node.gpus.forEach((holders, gpu) => {
      totals.states[gpuState(row, gpu)]++;
      const all = allocatedShare(holders);
      let sum = 0;
      for (const holder of holders) sum += holder.share;
      for (const { pod, share } of holders) {
        owners.set(pod.workload, (owners.get(pod.workload) ?? 0) + (share * all) / sum);
      }
    });
  }
  totals.owners = [...owners].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  if (measured > 0) totals.cpu = cpu / measured;
  if (totals.utilisation !== undefined) totals.utilisation /= totals.measured;
  return totals;
}

function addReadings(totals: Totals, { readings }: FleetNode): void {
  for (const { utilisation, power } of readings?.values() ?? []) {
    if (utilisation !== undefined) {
      totals.utilisation = (totals.utilisation ?? 0) + utilisation;
      totals.measured++;
    }
    if (power !== undefined) totals.power = (totals.power ?? 0) + power;
  }
}

function addMoney(totals: Totals, node: FleetNode): void {
  const { price = 0, nodePrice } = node.row;
  const gpus = node.gpus.length;
  if (nodePrice === undefined) {
    totals.unpriced += gpus;
    if (gpus === 0) totals.unpricedNodes++;
    return;
  }
  if (gpus === 0) {
    totals.cpuNodes += nodePrice;
    return;
  }
  const spent = node.allocated * price;
  totals.spent += spent;
  totals.idle += Math.max(0, nodePrice - spent);
  totals.prices = [Math.min(totals.prices[0], price), Math.max(totals.prices[1], price)];
}

function zeroByState(): Record<State, number> {
  return Object.fromEntries(STATES.map((state) => [state, 0])) as Record<State, number>;
}
