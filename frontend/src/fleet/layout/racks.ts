/** The layout of a rack: node tiles of GPU cells one above the other, in one column or more. */
import type { RackGroup } from "../../nodes/topology-tree";
import type { Box } from "./shelf-packing";

export interface NodeTile extends Box {
  id: string;
  gpus: number;
  /** GPU cells in one row of the tile. */
  columns: number;
}

export interface RackBox {
  rack: RackGroup;
  w: number;
  h: number;
  /** Its nodes, relative to its own corner. */
  tiles: NodeTile[];
}

/** Sizes of a tile, in map units. */
export const CELL = 10;
export const CELL_GAP = 1.6;
export const TILE_PAD = 2.2;
export const HEADER = 9;

export const TILE_GAP = 2.6;
const RACK_PAD = 4;
/** Width of the NVLink switch beside each column. */
const SPINE = 4;

/** Lays out a rack with at most `maxTiles` nodes in a column. */
export function layOutRack(rack: RackGroup, maxTiles: number): RackBox {
  const columns = Math.ceil(rack.nodes.length / maxTiles);
  const perColumn = Math.ceil(rack.nodes.length / columns);
  const across = Math.max(4, ...rack.nodes.map((node) => cellsAcross(node.gpus ?? 0)));
  const width = across * (CELL + CELL_GAP) - CELL_GAP + 2 * TILE_PAD;
  const spine = rack.domain ? SPINE : 0;
  const tiles: NodeTile[] = [];
  let lowest = 0;
  for (let column = 0; column < columns; column++) {
    let y = RACK_PAD;
    for (const node of rack.nodes.slice(column * perColumn, (column + 1) * perColumn)) {
      const gpus = node.gpus ?? 0;
      const lines = Math.max(1, Math.ceil(gpus / cellsAcross(gpus)));
      const h = HEADER + lines * (CELL + CELL_GAP) - CELL_GAP + TILE_PAD;
      const x = RACK_PAD + spine + column * (width + TILE_GAP + spine);
      tiles.push({ id: node.id, gpus, columns: cellsAcross(gpus), x, y, w: width, h });
      y += h + TILE_GAP;
    }
    lowest = Math.max(lowest, y - TILE_GAP);
  }
  return {
    rack,
    tiles,
    w: 2 * RACK_PAD + columns * (width + TILE_GAP + spine) - TILE_GAP,
    h: lowest + RACK_PAD,
  };
}

function cellsAcross(gpus: number): number {
  return gpus <= 4 ? 4 : 8;
}
