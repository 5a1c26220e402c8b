/** The nodes as a topology tree: zone, block, rack, node, each in natural order. */
import type { NodeRow } from "../data/rows";

export interface RackGroup {
  name: string;
  /** Caption of the NVLink domain that spans the rack, or "". */
  domain: string;
  gpus: number;
  nodes: NodeRow[];
}

export interface BlockGroup {
  name: string;
  racks: RackGroup[];
}

export interface ZoneGroup {
  name: string;
  nodes: number;
  gpus: number;
  blocks: BlockGroup[];
}

/** The zone shown for process nodes without a zone label. */
export const THIS_MACHINE = "this machine";
const natural = new Intl.Collator("en", { numeric: true });

/** Groups nodes by zone, block and rack; this machine and groups without a name come last. */
export function groupByTopology(nodes: Iterable<NodeRow>): ZoneGroup[] {
  const zones = new Map<string, Map<string, Map<string, NodeRow[]>>>();
  for (const node of nodes) {
    const blocks = getOrCreate(zones, zoneName(node), () => new Map<string, Map<string, NodeRow[]>>());
    const racks = getOrCreate(blocks, node.block ?? "", () => new Map<string, NodeRow[]>());
    getOrCreate(racks, node.rack ?? "", () => [] as NodeRow[]).push(node);
  }
  return inOrder(zones).map(([name, blocks]) => buildZone(name, blocks));
}

function zoneName(node: NodeRow): string {
  return node.zone ?? (node.kind === "process" ? THIS_MACHINE : "");
}

function buildZone(name: string, blocks: Map<string, Map<string, NodeRow[]>>): ZoneGroup {
  const blockGroups = inOrder(blocks).map(([block, racks]) => ({
    name: block,
    racks: inOrder(racks).map(([rack, nodes]) => buildRack(rack, nodes)),
  }));
  const racks = blockGroups.flatMap((block) => block.racks);
  return {
    name,
    blocks: blockGroups,
    nodes: racks.reduce((sum, rack) => sum + rack.nodes.length, 0),
    gpus: racks.reduce((sum, rack) => sum + rack.gpus, 0),
  };
}

function buildRack(name: string, nodes: NodeRow[]): RackGroup {
  nodes.sort((a, b) => natural.compare(a.id, b.id));
  const gpus = nodes.reduce((sum, node) => sum + (node.gpus ?? 0), 0);
  return { name, nodes, gpus, domain: domainCaption(nodes, gpus) };
}

/** "NVLink domain · 72 GPUs" where one NVLink domain spans all nodes of the rack. */
function domainCaption(nodes: readonly NodeRow[], gpus: number): string {
  const clique = nodes[0]?.nvlinkDomain;
  if (!clique || nodes.length < 2) return "";
  return nodes.every((node) => node.nvlinkDomain === clique) ? `NVLink domain · ${gpus} GPUs` : "";
}

function getOrCreate<V>(map: Map<string, V>, key: string, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}

function inOrder<V>(map: Map<string, V>): [string, V][] {
  return [...map].sort(([a], [b]) => rank(a) - rank(b) || natural.compare(a, b));
}

function rank(name: string): number {
  return name === "" ? 2 : name === THIS_MACHINE ? 1 : 0;
}
