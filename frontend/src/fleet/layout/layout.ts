/**
 * The layout of the map.
 *
 * A node is a tile of GPU cells, a rack a column of tiles, a block a row of racks, a
 * zone a panel of blocks; zones are placed side by side if the width allows, else
 * stacked. Lengths are in map units; one unit is `scale` pixels at the initial zoom.
 * Of several arrangements, the one that shows everything at the largest scale is used;
 * if even the smallest legible scale is too large, the map scrolls.
 */

import type { NodeRow } from "../../data/rows";
import { pluralize } from "../../lib/format";
import { type BlockGroup, groupByTopology, type ZoneGroup } from "../../nodes/topology-tree";
import { layOutRack, type NodeTile, type RackBox } from "./racks";
import { type Box, packShelves } from "./shelf-packing";

export interface Rack extends Box {
  name: string;
  domain: string;
  tiles: NodeTile[];
}

export interface Area extends Box {
  title: string;
  note: string;
}

export interface Layout {
  w: number;
  h: number;
  /** Pixels per unit at the initial zoom. */
  scale: number;
  zones: Area[];
  blocks: Area[];
  racks: Rack[];
  tiles: NodeTile[];
  byId: Map<string, NodeTile>;
}

export interface AvailableSpace {
  width: number;
  height: number;
}

/** Heights of the lines for names, in pixels at the initial zoom. */
export const CAPTION_HEIGHTS = { zone: 26, block: 19, rack: 15, domain: 12 };

const MAX_SCALE = 2.6;
const MIN_GAIN = 1.05;
/** Below this many pixels per unit a rack's name is wider than the rack. */
const MIN_RACK_NAME_SCALE = 0.75;

/** An arrangement: columns of zones, and of blocks in a zone. */
interface Arrangement {
  zones: number;
  blocks: number;
}

/** The fleet with its racks laid out, for one maximum height. */
type FleetBoxes = { zone: ZoneGroup; blocks: { block: BlockGroup; racks: RackBox[] }[] }[];

/** Lays the nodes out for a viewport of this size. */
export function layOutFleet(nodes: Iterable<NodeRow>, space: AvailableSpace): Layout {
  const zoneGroups = groupByTopology(nodes);
  const smallest = space.width < 600 ? 0.5 : 0.22;
  let best: ArrangedFleet | undefined;
  for (const [arrangement, boxes] of arrangements(zoneGroups)) {
    // Most arrangements are discarded after one attempt: they do not improve on the best so far.
    const goal = best?.fits ? best.scale * MIN_GAIN : smallest;
    const attempt = arrange(boxes, space, arrangement, goal);
    if (attempt.fits) best = largestFit(boxes, space, arrangement, attempt);
    else if (!best || (!best.fits && attempt.h < best.h * 0.8)) best = attempt;
  }
  return (best ?? arrange([], space, { zones: 1, blocks: 1 }, 1)).toLayout();
}

/** Tall racks and few columns first: another arrangement has to be visibly better. */
function* arrangements(zoneGroups: ZoneGroup[]): Iterable<[Arrangement, FleetBoxes]> {
  const blocks = zoneGroups.flatMap((zone) => zone.blocks);
  const tallest = Math.max(0, ...blocks.flatMap((block) => block.racks.map((rack) => rack.nodes.length)));
  const mostBlocks = Math.max(1, ...zoneGroups.map((zone) => zone.blocks.length));
  for (const maxTiles of [18, 9, 6]) {
    if (maxTiles < 18 && maxTiles >= tallest) continue;
    const boxes = zoneGroups.map((zone) => ({
      zone,
      blocks: zone.blocks.map((block) => ({ block, racks: block.racks.map((rack) => layOutRack(rack, maxTiles)) })),
    }));
    for (let zones = 1; zones <= Math.min(4, zoneGroups.length); zones++) {
      for (let columns = 1; columns <= Math.min(4, mostBlocks); columns++) yield [{ zones, blocks: columns }, boxes];
    }
  }
}

function largestFit(
  boxes: FleetBoxes,
  space: AvailableSpace,
  arrangement: Arrangement,
  from: ArrangedFleet,
): ArrangedFleet {
  let best = from;
  let high = MAX_SCALE;
  for (let attempt = 0; attempt < 8 && best.scale < high; attempt++) {
    const tried = arrange(boxes, space, arrangement, (best.scale + high) / 2);
    if (tried.fits) best = tried;
    else high = tried.scale;
  }
  return best;
}

interface ArrangedFleet {
  fits: boolean;
  h: number;
  scale: number;
  toLayout(): Layout;
}

/** A box whose size is known before its position. */
interface Panel {
  box: Box;
  place(layout: Layout, x: number, y: number): void;
}

function arrange(boxes: FleetBoxes, space: AvailableSpace, arrangement: Arrangement, scale: number): ArrangedFleet {
  const width = space.width / scale;
  // When zoomed out, margins shrink.
  const marginScale = Math.max(0.5, Math.min(1, scale / 0.8)) / scale;
  const edge = 12 * marginScale;
  const gap = 10 * marginScale;
  const inner = width - 2 * edge;
  const column = (inner - gap * (arrangement.zones - 1)) / arrangement.zones;
  const panels = boxes.map(({ zone, blocks }) => zonePanel(zone, blocks, column, arrangement, scale, marginScale));
  const size = packShelves(
    panels.map((panel) => panel.box),
    { width: inner, gap, justify: true },
  );
  const w = Math.max(width, size.w + 2 * edge);
  const h = size.h + 2 * edge;
  return {
    h,
    scale,
    fits: h * scale <= space.height && w * scale <= space.width + 0.5,
    toLayout() {
      const layout: Layout = { w, h, scale, zones: [], blocks: [], racks: [], tiles: [], byId: new Map() };
      for (const panel of panels) panel.place(layout, edge, edge);
      for (const tile of layout.tiles) layout.byId.set(tile.id, tile);
      return layout;
    },
  };
}

function zonePanel(
  zone: ZoneGroup,
  blocks: FleetBoxes[number]["blocks"],
  width: number,
  arrangement: Arrangement,
  scale: number,
  marginScale: number,
): Panel {
  const pad = 9 * marginScale;
  const gap = 8 * marginScale;
  const title = CAPTION_HEIGHTS.zone / scale;
  const inner = width - 2 * pad;
  const column = (inner - gap * (arrangement.blocks - 1)) / arrangement.blocks;
  const panels = blocks.map(({ block, racks }) => blockPanel(block, racks, column, scale, marginScale));
  const inside = packShelves(
    panels.map((panel) => panel.box),
    { width: inner, gap, justify: panels.length > arrangement.blocks },
  );
  const name = zone.name || "no zone";
  const box = { x: 0, y: 0, w: widenForName(inside.w + 2 * pad, name, 8.4, width, scale), h: inside.h + title + pad };
  return {
    box,
    place(layout, x, y) {
      const gpus = zone.gpus ? ` · ${pluralize(zone.gpus, "GPU")}` : "";
      layout.zones.push({
        x: x + box.x,
        y: y + box.y,
        w: box.w,
        h: box.h,
        title: name,
        note: `${pluralize(zone.nodes, "node")}${gpus}`,
      });
      for (const panel of panels) panel.place(layout, x + box.x + pad, y + box.y + title);
    },
  };
}

/** Widens a panel to fit its name, given the width of a letter in pixels. */
function widenForName(w: number, name: string, letter: number, most: number, scale: number): number {
  return Math.max(w, Math.min(most, (name.length * letter + 22) / scale));
}

function blockPanel(block: BlockGroup, racks: RackBox[], width: number, scale: number, marginScale: number): Panel {
  const pad = 6 * marginScale;
  const title = block.name ? CAPTION_HEIGHTS.block / scale : 0;
  const around = block.name ? pad : 0;
  const panels = racks.map((rackBox) => rackPanel(rackBox, scale));
  const inside = packShelves(
    panels.map((panel) => panel.box),
    { width: width - 2 * around, gap: 6 * marginScale, justify: false },
  );
  const box = {
    x: 0,
    y: 0,
    w: widenForName(inside.w + 2 * around, block.name, 7.2, width, scale),
    h: inside.h + title + around,
  };
  return {
    box,
    place(layout, x, y) {
      layout.blocks.push({ x: x + box.x, y: y + box.y, w: box.w, h: box.h, title: block.name, note: "" });
      for (const panel of panels) panel.place(layout, x + box.x + around, y + box.y + title);
    },
  };
}

function rackPanel({ rack, tiles, w, h }: RackBox, scale: number): Panel {
  const named = scale >= MIN_RACK_NAME_SCALE && rack.name !== "";
  const caption = named ? (CAPTION_HEIGHTS.rack + (rack.domain ? CAPTION_HEIGHTS.domain : 0)) / scale : 0;
  const box = { x: 0, y: 0, w, h: h + caption };
  return {
    box,
    place(layout, x, y) {
      const left = x + box.x;
      const top = y + box.y;
      const placed = tiles.map((tile) => ({ ...tile, x: tile.x + left, y: tile.y + top + caption }));
      layout.tiles.push(...placed);
      layout.racks.push({ name: rack.name, domain: rack.domain, tiles: placed, x: left, y: top, w: box.w, h: box.h });
    },
  };
}
