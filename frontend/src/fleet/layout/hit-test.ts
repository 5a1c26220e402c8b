/** Finds the node or GPU at a point of the map, and its neighbours. */

import type { Layout } from "./layout";
import { CELL, CELL_GAP, HEADER, type NodeTile, TILE_PAD } from "./racks";
import type { Box } from "./shelf-packing";

/** A node on the map, or one GPU of it, that can be hovered or focused. */
export interface HitTarget {
  node: string;
  gpu?: number;
}

export type Direction = "left" | "right" | "up" | "down";

/** The box of GPU `index` in a tile; without the node's name, cells fill the whole tile. */
export function cellBox(tile: NodeTile, index: number, named: boolean): Box {
  const lines = Math.max(1, Math.ceil(tile.gpus / tile.columns));
  const top = named ? HEADER : TILE_PAD;
  const height = (tile.h - top - TILE_PAD - (lines - 1) * CELL_GAP) / lines;
  const column = index % tile.columns;
  const line = Math.floor(index / tile.columns);
  return {
    x: tile.x + TILE_PAD + column * (CELL + CELL_GAP),
    y: tile.y + top + line * (height + CELL_GAP),
    w: CELL,
    h: height,
  };
}

/** The node, and the GPU if it is one, at a point of the map. */
export function hitTest(layout: Layout, x: number, y: number, named: boolean): HitTarget | undefined {
  for (const rack of layout.racks) {
    if (!contains(rack, x, y)) continue;
    const tile = rack.tiles.find((candidate) => contains(candidate, x, y));
    if (!tile) return undefined;
    for (let gpu = 0; gpu < tile.gpus; gpu++) {
      if (contains(cellBox(tile, gpu, named), x, y)) return { node: tile.id, gpu };
    }
    return { node: tile.id };
  }
  return undefined;
}

/** The target that an arrow key moves to. */
export function findNeighbour(layout: Layout, from: HitTarget, direction: Direction): HitTarget {
  const tile = layout.byId.get(from.node);
  if (!tile) return from;
  if (from.gpu !== undefined) {
    const gpu = from.gpu + cellStep(tile, from.gpu, direction);
    if (gpu !== from.gpu) return { node: tile.id, gpu };
  }
  const next = nearestTile(layout, tile, direction);
  if (!next) return from;
  if (from.gpu === undefined || next.gpus === 0) return { node: next.id };
  return { node: next.id, gpu: entryCell(next, tile, from.gpu, direction) };
}

function contains(box: Box, x: number, y: number): boolean {
  return x >= box.x && x < box.x + box.w && y >= box.y && y < box.y + box.h;
}

function cellStep(tile: NodeTile, gpu: number, direction: Direction): number {
  const column = gpu % tile.columns;
  if (direction === "left") return column > 0 ? -1 : 0;
  if (direction === "right") return column < tile.columns - 1 && gpu < tile.gpus - 1 ? 1 : 0;
  if (direction === "up") return gpu >= tile.columns ? -tile.columns : 0;
  return gpu + tile.columns < tile.gpus ? tile.columns : 0;
}

function entryCell(next: NodeTile, tile: NodeTile, gpu: number, direction: Direction): number {
  const last = next.gpus - 1;
  if (direction === "left") return Math.min(last, next.columns - 1);
  if (direction === "right") return 0;
  const column = gpu % tile.columns;
  if (direction === "down") return Math.min(last, column);
  const lastLine = Math.floor(last / next.columns) * next.columns;
  return Math.min(last, lastLine + column);
}

function nearestTile(layout: Layout, from: NodeTile, direction: Direction): NodeTile | undefined {
  const across = direction === "left" || direction === "right";
  const sign = direction === "left" || direction === "up" ? -1 : 1;
  const fromX = from.x + from.w / 2;
  const fromY = from.y + from.h / 2;
  let best: NodeTile | undefined;
  let least = Infinity;
  for (const tile of layout.tiles) {
    const dx = tile.x + tile.w / 2 - fromX;
    const dy = tile.y + tile.h / 2 - fromY;
    const ahead = sign * (across ? dx : dy);
    if (ahead <= 0.5) continue;
    const aside = Math.abs(across ? dy : dx);
    // Sideways distance weighs more, so that an arrow key follows the row or the rack.
    const far = ahead + 4 * aside;
    if (far < least) {
      least = far;
      best = tile;
    }
  }
  return best;
}
