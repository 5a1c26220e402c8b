/** What the map is asked to show: read from the address, so that a link shows the same. */
import { computed } from "@preact/signals";
import { query } from "../router";
import type { NodeRow } from "../rows";
import { theme } from "../theme";
import { MODES, type Mode } from "./colouring";
import { ownersOf, type FleetNode } from "./holdings";
import type { ThemeName } from "./skin";

export interface View {
  mode: Mode;
  theme: ThemeName;
  /** The workload that stands out. */
  owner: string;
  search: string;
  zone: string;
  product: string;
}

export const view = computed<View>(() => {
  const asked = query.value;
  const colour = asked.get("colour");
  // Links from before it was called by its name.
  const mode = MODES.find((each) => each === (colour === "utilisation" ? "allocation" : colour)) ?? "owner";
  return {
    mode,
    theme: theme.value,
    owner: mode === "owner" ? (asked.get("owner") ?? "") : "",
    search: (asked.get("q") ?? "").trim().toLowerCase(),
    zone: asked.get("zone") ?? "",
    product: asked.get("product") ?? "",
  };
});

/** True if the node is on the map at all. */
export function shown(row: NodeRow, { zone, product }: View): boolean {
  return (!zone || row.zone === zone) && (!product || row.product === product);
}

/** True if the node is not what was searched for, or not the owner's that stands out. */
export function dimmed(node: FleetNode, { search, owner }: View): boolean {
  if (search && !found(node, search)) return true;
  return owner !== "" && !ownersOf(node).some(([workload]) => workload === owner);
}

/** True if each of the words is in the node's name, place or product, or in the name of a workload or pod there. */
export function found(node: FleetNode, search: string): boolean {
  const { id, zone, block, rack, product } = node.row;
  const text = `${id} ${zone ?? ""} ${block ?? ""} ${rack ?? ""} ${product ?? ""}`.toLowerCase();
  const pods = [...node.pods.values()];
  return search.split(/\s+/).every(
    (word) => text.includes(word) || pods.some((pod) => pod.workload.toLowerCase().includes(word) || pod.id.toLowerCase().includes(word)),
  );
}
