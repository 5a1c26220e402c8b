/** The fleet as a tree of places: zone, block, rack, node, each in natural order. */
import type { NodeRow } from "../rows";

export interface RackPlace {
  name: string;
  /** Caption of the NVLink domain that the whole rack is, or "". */
  domain: string;
  gpus: number;
  nodes: NodeRow[];
}

export interface BlockPlace {
  name: string;
  racks: RackPlace[];
}

export interface ZonePlace {
  name: string;
  nodes: number;
  gpus: number;
  blocks: BlockPlace[];
}

/** Where nodes stand that are processes on this machine and say no zone. */
export const THIS_MACHINE = "this machine";
const natural = new Intl.Collator("en", { numeric: true });

/** Sorts nodes into zones, blocks and racks; this machine and places without a name come last. */
export function placesOf(nodes: Iterable<NodeRow>): ZonePlace[] {
  const zones = new Map<string, Map<string, Map<string, NodeRow[]>>>();
  for (const node of nodes) {
    const blocks = within(zones, zoneName(node), () => new Map<string, Map<string, NodeRow[]>>());
    const racks = within(blocks, node.block ?? "", () => new Map<string, NodeRow[]>());
    within(racks, node.rack ?? "", () => [] as NodeRow[]).push(node);
  }
  return inOrder(zones).map(([name, blocks]) => zonePlace(name, blocks));
}

function zoneName(node: NodeRow): string {
  return node.zone ?? (node.kind === "process" ? THIS_MACHINE : "");
}

function zonePlace(name: string, blocks: Map<string, Map<string, NodeRow[]>>): ZonePlace {
  const places = inOrder(blocks).map(([block, racks]) => ({
    name: block,
    racks: inOrder(racks).map(([rack, nodes]) => rackPlace(rack, nodes)),
  }));
  const racks = places.flatMap((block) => block.racks);
  return {
    name,
    blocks: places,
    nodes: racks.reduce((sum, rack) => sum + rack.nodes.length, 0),
    gpus: racks.reduce((sum, rack) => sum + rack.gpus, 0),
  };
}

function rackPlace(name: string, nodes: NodeRow[]): RackPlace {
  nodes.sort((a, b) => natural.compare(a.id, b.id));
  const gpus = nodes.reduce((sum, node) => sum + (node.gpus ?? 0), 0);
  return { name, nodes, gpus, domain: domainCaption(nodes, gpus) };
}

/** "NVLink domain · 72 GPUs" where one NVLink domain spans all nodes of the rack. */
function domainCaption(nodes: readonly NodeRow[], gpus: number): string {
  const clique = nodes[0]?.clique;
  if (!clique || nodes.length < 2) return "";
  return nodes.every((node) => node.clique === clique) ? `NVLink domain · ${gpus} GPUs` : "";
}

function within<V>(map: Map<string, V>, key: string, make: () => V): V {
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
