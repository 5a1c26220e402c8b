/** Filters, search and colour mode of the nodes, read from the address, so that links keep them. */
import { computed } from "@preact/signals";
import { query } from "../app/router";
import { theme } from "../app/theme";
import type { NodeRow } from "../data/rows";
import { COLOUR_MODES, type ColourMode } from "./cell-colours";
import type { ThemeName } from "./colour-theme";
import { allocationsByOwner, type FleetNode } from "./gpu-allocations";

export interface ViewQuery {
  mode: ColourMode;
  theme: ThemeName;
  /** The highlighted workload. */
  owner: string;
  search: string;
  zone: string;
  product: string;
}

export const viewQuery = computed<ViewQuery>(() => {
  const params = query.value;
  const colour = params.get("colour");
  // Old links name this mode "utilisation".
  const mode = COLOUR_MODES.find((each) => each === (colour === "utilisation" ? "allocation" : colour)) ?? "owner";
  return {
    mode,
    theme: theme.value,
    owner: mode === "owner" ? (params.get("owner") ?? "") : "",
    search: (params.get("q") ?? "").trim().toLowerCase(),
    zone: params.get("zone") ?? "",
    product: params.get("product") ?? "",
  };
});

/** True if the node passes the filters. */
export function isShown(row: NodeRow, { zone, product }: ViewQuery): boolean {
  return (!zone || row.zone === zone) && (!product || row.product === product);
}

/** True if the node does not match the search, or holds nothing of the highlighted owner. */
export function isDimmed(node: FleetNode, { search, owner }: ViewQuery): boolean {
  if (search && !matchesSearch(node, search)) return true;
  return owner !== "" && !allocationsByOwner(node).some(([workload]) => workload === owner);
}

/** True if each word is part of the node's name, location or product, or of a workload or pod on it. */
export function matchesSearch(node: FleetNode, search: string): boolean {
  const { id, zone, block, rack, product } = node.row;
  const text = `${id} ${zone ?? ""} ${block ?? ""} ${rack ?? ""} ${product ?? ""}`.toLowerCase();
  const pods = [...node.pods.values()];
  return search
    .split(/\s+/)
    .every(
      (word) =>
        text.includes(word) ||
        pods.some((pod) => pod.workload.toLowerCase().includes(word) || pod.id.toLowerCase().includes(word)),
    );
}
