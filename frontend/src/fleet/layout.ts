/**
 * Where everything stands on the map.
 *
 * A node is a tray of GPU cells, a rack a cabinet of trays, a block a row of
 * cabinets, a zone a panel of blocks; zones flow side by side where there is
 * room and stack where there is none. Lengths are in map units; one unit is
 * `scale` pixels when the map is first shown. Of several ways to arrange the
 * panels the one is taken that shows everything at the largest scale; where even
 * the smallest scale that can be read is too large, the map scrolls.
 */
import { counted } from "../format";
import type { NodeRow } from "../rows";
import { cabinetOf, type Cabinet, type Tile } from "./cabinets";
import { placesOf, type BlockPlace, type ZonePlace } from "./places";
import { shelve, type Box } from "./shelves";

export interface Rack extends Box {
  name: string;
  domain: string;
  tiles: Tile[];
}

export interface Area extends Box {
  title: string;
  note: string;
}

export interface Layout {
  w: number;
  h: number;
  /** Pixels per unit when the map is first shown. */
  scale: number;
  zones: Area[];
  blocks: Area[];
  racks: Rack[];
  tiles: Tile[];
  byId: Map<string, Tile>;
}

export interface Room {
  width: number;
  height: number;
}

/** Heights of the lines for names, in pixels when the map is first shown. */
export const LINES = { zone: 26, block: 19, rack: 15, domain: 12 };

const LARGEST = 2.6;
/** Below this many pixels per unit a rack's name would be wider than the rack. */
const RACK_NAMES_FROM = 0.75;

/** A way to arrange: columns of zones, columns of blocks in a zone, trays in a column of a cabinet. */
interface Way {
  zones: number;
  blocks: number;
  trays: number;
}

/** The fleet with its cabinets built, for one number of trays. */
type Built = { zone: ZonePlace; blocks: { block: BlockPlace; cabinets: Cabinet[] }[] }[];

/** Lays the nodes out for a window of this size. */
export function layOut(nodes: Iterable<NodeRow>, room: Room): Layout {
  const places = placesOf(nodes);
  const smallest = room.width < 600 ? 0.5 : 0.22;
  let best: Arranged | undefined;
  for (const trays of [18, 9, 6]) {
    const built = places.map((zone) => ({
      zone,
      blocks: zone.blocks.map((block) => ({ block, cabinets: block.racks.map((rack) => cabinetOf(rack, trays)) })),
    }));
    for (const zones of [1, 2, 3, 4]) {
      for (const blocks of [1, 2, 3, 4]) {
        const tried = largestThatFits(built, room, { zones, blocks, trays }, smallest);
        if (!best || better(tried, best)) best = tried;
      }
    }
  }
  return (best ?? arrange([], room, { zones: 1, blocks: 1, trays: 1 }, 1)).settle();
}

/** Tall cabinets and few columns are tried first, and kept unless another way gains what can be seen. */
function better(one: Arranged, other: Arranged): boolean {
  return one.scale > other.scale * 1.05 || (one.scale >= other.scale && one.h < other.h * 0.8);
}

function largestThatFits(built: Built, room: Room, way: Way, smallest: number): Arranged {
  let low = smallest;
  let high = LARGEST;
  let best = arrange(built, room, way, smallest);
  for (let round = 0; round < 8; round++) {
    const scale = (low + high) / 2;
    const tried = arrange(built, room, way, scale);
    if (tried.h * scale <= room.height && tried.w * scale <= room.width + 0.5) {
      best = tried;
      low = scale;
    } else {
      high = scale;
    }
  }
  return best;
}

interface Arranged {
  w: number;
  h: number;
  scale: number;
  settle(): Layout;
}

/** Something with a size that is told later where it stands. */
interface Piece {
  box: Box;
  settle(layout: Layout, x: number, y: number): void;
}

function arrange(built: Built, room: Room, way: Way, scale: number): Arranged {
  const width = room.width / scale;
  // From far, margins give way to what they surround.
  const near = Math.max(0.5, Math.min(1, scale / 0.8)) / scale;
  const edge = 12 * near;
  const gap = 10 * near;
  const inner = width - 2 * edge;
  const column = (inner - gap * (way.zones - 1)) / way.zones;
  const panels = built.map(({ zone, blocks }) => zonePanel(zone, blocks, column, way, scale, near));
  const size = shelve(panels.map((panel) => panel.box), { width: inner, gap, justify: true });
  const w = Math.max(width, size.w + 2 * edge);
  const h = size.h + 2 * edge;
  return {
    w, h, scale,
    settle() {
      const layout: Layout = { w, h, scale, zones: [], blocks: [], racks: [], tiles: [], byId: new Map() };
      for (const panel of panels) panel.settle(layout, edge, edge);
      for (const tile of layout.tiles) layout.byId.set(tile.id, tile);
      return layout;
    },
  };
}

function zonePanel(
  zone: ZonePlace, blocks: Built[number]["blocks"], width: number, way: Way, scale: number, near: number,
): Piece {
  const pad = 9 * near;
  const gap = 8 * near;
  const title = LINES.zone / scale;
  const inner = width - 2 * pad;
  const column = (inner - gap * (way.blocks - 1)) / way.blocks;
  const panels = blocks.map(({ block, cabinets }) => blockPanel(block, cabinets, column, scale, near));
  const inside = shelve(panels.map((panel) => panel.box), { width: inner, gap, justify: panels.length > way.blocks });
  const name = zone.name || "no zone";
  const box = { x: 0, y: 0, w: atLeast(inside.w + 2 * pad, name, 8.4, width, scale), h: inside.h + title + pad };
  return {
    box,
    settle(layout, x, y) {
      const gpus = zone.gpus ? ` · ${counted(zone.gpus, "GPU")}` : "";
      layout.zones.push({
        x: x + box.x, y: y + box.y, w: box.w, h: box.h,
        title: name,
        note: `${counted(zone.nodes, "node")}${gpus}`,
      });
      for (const panel of panels) panel.settle(layout, x + box.x + pad, y + box.y + title);
    },
  };
}

/** Widens a panel to what its name takes, with letters so many pixels wide. */
function atLeast(w: number, name: string, letter: number, most: number, scale: number): number {
  return Math.max(w, Math.min(most, (name.length * letter + 22) / scale));
}

function blockPanel(block: BlockPlace, cabinets: Cabinet[], width: number, scale: number, near: number): Piece {
  const pad = 6 * near;
  const title = block.name ? LINES.block / scale : 0;
  const around = block.name ? pad : 0;
  const pieces = cabinets.map((cabinet) => cabinetPiece(cabinet, scale));
  const inside = shelve(pieces.map((piece) => piece.box), { width: width - 2 * around, gap: 6 * near, justify: false });
  const box = { x: 0, y: 0, w: atLeast(inside.w + 2 * around, block.name, 7.2, width, scale), h: inside.h + title + around };
  return {
    box,
    settle(layout, x, y) {
      layout.blocks.push({ x: x + box.x, y: y + box.y, w: box.w, h: box.h, title: block.name, note: "" });
      for (const piece of pieces) piece.settle(layout, x + box.x + around, y + box.y + title);
    },
  };
}

function cabinetPiece({ rack, tiles, w, h }: Cabinet, scale: number): Piece {
  const named = scale >= RACK_NAMES_FROM && rack.name !== "";
  const caption = named ? (LINES.rack + (rack.domain ? LINES.domain : 0)) / scale : 0;
  const box = { x: 0, y: 0, w, h: h + caption };
  return {
    box,
    settle(layout, x, y) {
      const left = x + box.x;
      const top = y + box.y;
      const placed = tiles.map((tile) => ({ ...tile, x: tile.x + left, y: tile.y + top + caption }));
      layout.tiles.push(...placed);
      layout.racks.push({ name: rack.name, domain: rack.domain, tiles: placed, x: left, y: top, w: box.w, h: box.h });
    },
  };
}
