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
const WORTH_IT = 1.05;
/** Below this many pixels per unit a rack's name would be wider than the rack. */
const RACK_NAMES_FROM = 0.75;

/** A way to arrange: columns of zones, and of blocks in a zone. */
interface Way {
  zones: number;
  blocks: number;
}

/** The fleet with its cabinets built, for one number of trays. */
type Built = { zone: ZonePlace; blocks: { block: BlockPlace; cabinets: Cabinet[] }[] }[];

/** Lays the nodes out for a window of this size. */
export function layOut(nodes: Iterable<NodeRow>, room: Room): Layout {
  const places = placesOf(nodes);
  const smallest = room.width < 600 ? 0.5 : 0.22;
  let best: Arranged | undefined;
  for (const [way, built] of waysOf(places)) {
    // Most ways are given up after one try: they are not worth more than the best so far.
    const goal = best?.fits ? best.scale * WORTH_IT : smallest;
    const tried = arrange(built, room, way, goal);
    if (tried.fits) best = largestThatFits(built, room, way, tried);
    else if (!best || (!best.fits && tried.h < best.h * 0.8)) best = tried;
  }
  return (best ?? arrange([], room, { zones: 1, blocks: 1 }, 1)).settle();
}

/** Tall cabinets and few columns first: another way has to gain what can be seen. */
function* waysOf(places: ZonePlace[]): Iterable<[Way, Built]> {
  const blocks = places.flatMap((zone) => zone.blocks);
  const tallest = Math.max(0, ...blocks.flatMap((block) => block.racks.map((rack) => rack.nodes.length)));
  const mostBlocks = Math.max(1, ...places.map((zone) => zone.blocks.length));
  for (const trays of [18, 9, 6]) {
    if (trays < 18 && trays >= tallest) continue;
    const built = places.map((zone) => ({
      zone,
      blocks: zone.blocks.map((block) => ({ block, cabinets: block.racks.map((rack) => cabinetOf(rack, trays)) })),
    }));
    for (let zones = 1; zones <= Math.min(4, places.length); zones++) {
      for (let columns = 1; columns <= Math.min(4, mostBlocks); columns++) yield [{ zones, blocks: columns }, built];
    }
  }
}

function largestThatFits(built: Built, room: Room, way: Way, from: Arranged): Arranged {
  let best = from;
  let high = LARGEST;
  for (let round = 0; round < 8 && best.scale < high; round++) {
    const tried = arrange(built, room, way, (best.scale + high) / 2);
    if (tried.fits) best = tried;
    else high = tried.scale;
  }
  return best;
}

interface Arranged {
  fits: boolean;
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
    h, scale,
    fits: h * scale <= room.height && w * scale <= room.width + 0.5,
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
