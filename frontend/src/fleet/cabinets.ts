/** Racks as cabinets: trays of GPU cells one above the other, in one column or more. */
import type { RackPlace } from "./places";
import type { Box } from "./shelves";

export interface Tile extends Box {
  id: string;
  gpus: number;
  /** GPU cells in one row of the tray. */
  columns: number;
}

export interface Cabinet {
  rack: RackPlace;
  w: number;
  h: number;
  /** Where its trays stand, from its own corner. */
  tiles: Tile[];
}

/** Sizes of a tray, in map units. */
export const CELL = 10;
export const CELL_GAP = 1.6;
export const TILE_PAD = 2.2;
export const HEADER = 9;

export const TILE_GAP = 2.6;
const RACK_PAD = 4;
/** Room for the NVLink switch beside each column. */
const SPINE = 4;

/** Builds the cabinet of a rack with at most so many trays in a column. */
export function cabinetOf(rack: RackPlace, trays: number): Cabinet {
  const columns = Math.ceil(rack.nodes.length / trays);
  const perColumn = Math.ceil(rack.nodes.length / columns);
  const across = Math.max(4, ...rack.nodes.map((node) => cellsAcross(node.gpus ?? 0)));
  const width = across * (CELL + CELL_GAP) - CELL_GAP + 2 * TILE_PAD;
  const spine = rack.domain ? SPINE : 0;
  const tiles: Tile[] = [];
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
