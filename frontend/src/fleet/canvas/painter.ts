/** Paints nodes: all within the viewport, or only those that changed. */

import type { CellAppearance, Segment } from "../../nodes/cell-colours";
import type { ColourTheme } from "../../nodes/colour-theme";
import { cellBox } from "../layout/hit-test";
import type { Layout } from "../layout/layout";
import { HEADER, type NodeTile, TILE_GAP, TILE_PAD } from "../layout/racks";
import { paintBackground } from "./background";
import { Brush } from "./brush";
import { type Camera, type Detail, detailAt, inView, type Pixels, toPixels, toPixelsBeside } from "./camera";
import { paintHolders, paintName, paintNumber } from "./labels";

/** The state that is painted. */
export interface PaintSource {
  layout: Layout;
  colours: ColourTheme;
  appearanceOf(id: string): CellAppearance | undefined;
  /** Names of the workloads that hold a GPU, from the bottom up. */
  holdersOf(id: string, gpu: number): string[];
  isDimmed(id: string): boolean;
  /** Highlight of a recent change: 1 for just now, fading to 0. */
  freshness(id: string): number;
}

/** Height of the meter below the cells, in map units. */
const METER = 2.2;

export class Painter {
  readonly #brush: Brush;

  constructor(canvas: HTMLCanvasElement) {
    this.#brush = new Brush(canvas);
  }

  /** Paints the whole viewport. */
  paintAll(source: PaintSource, camera: Camera): void {
    const { ratio } = camera;
    this.#brush.textures.anchorTo(camera.x * ratio, camera.y * ratio, ratio);
    paintBackground(this.#brush.pen, source.layout, camera, source.colours);
    for (const rack of source.layout.racks) {
      if (inView(camera, rack)) this.#paint(source, camera, rack.tiles, false);
    }
  }

  /** Repaints some nodes in place. */
  paintTiles(source: PaintSource, camera: Camera, tiles: Iterable<NodeTile>): void {
    this.#paint(source, camera, tiles, true);
  }

  #paint(source: PaintSource, camera: Camera, tiles: Iterable<NodeTile>, over: boolean): void {
    const detail = detailAt(camera.scale);
    for (const tile of tiles) {
      if (!inView(camera, tile)) continue;
      const appearance = source.appearanceOf(tile.id);
      if (appearance) this.#paintTile(source, camera, detail, tile, appearance, over);
    }
    this.#brush.pen.globalAlpha = 1;
  }

  #paintTile(
    source: PaintSource,
    camera: Camera,
    detail: Detail,
    tile: NodeTile,
    appearance: CellAppearance,
    over: boolean,
  ): void {
    const brush = this.#brush;
    const { pen } = brush;
    const { colours } = source;
    const unit = camera.scale * camera.ratio;
    // When zoomed out a gap is less than a pixel: rounded, it would vanish between some nodes.
    const box = detail.cells ? toPixels(camera, tile) : toPixelsBeside(camera, tile, TILE_GAP);
    const dimmed = source.isDimmed(tile.id);
    pen.globalAlpha = 1;
    if (detail.cells) {
      if (over) brush.rect(colours.rack, box);
      brush.round(colours.tile, box, 1.8 * unit);
    } else {
      brush.rect(colours.free, box);
    }
    pen.globalAlpha = dimmed ? colours.dimmed : 1;
    if (tile.gpus === 0) this.#paintCpuNode(camera, detail, tile, appearance, colours);
    else if (detail.cells) this.#paintCells(source, camera, detail, tile, appearance);
    else this.#paintRuns(camera, box, tile, appearance, colours);
    if (detail.names) {
      pen.globalAlpha = dimmed ? 0.35 : 1;
      paintName(pen, camera, colours, tile, appearance);
    } else if (appearance.state !== "healthy" && appearance.state !== "lost") {
      // When zoomed out, a node that is not healthy has a coloured edge.
      pen.globalAlpha = 1;
      brush.rect(colours.states[appearance.state], {
        ...box,
        w: Math.max(2, Math.round(Math.min(3 * camera.ratio, 2.4 * unit))),
      });
    }
    this.#paintFreshness(
      source.freshness(tile.id) * (dimmed ? 0.1 : 0.45),
      colours,
      detail.cells ? { ...box, h: Math.max(1, Math.round(1.2 * unit)) } : box,
    );
  }

  #paintFreshness(strength: number, colours: ColourTheme, box: Pixels): void {
    if (strength <= 0) return;
    this.#brush.pen.globalAlpha = strength;
    this.#brush.rect(colours.text, box);
  }

  /** When zoomed out, adjacent GPUs of one colour are one rectangle. */
  #paintRuns(camera: Camera, box: Pixels, tile: NodeTile, appearance: CellAppearance, colours: ColourTheme): void {
    const lines = Math.ceil(tile.gpus / tile.columns);
    const part = (start: number, end: number): Pixels => {
      const column = start % tile.columns;
      const line = Math.floor(start / tile.columns);
      const x = Math.round((column * box.w) / tile.columns);
      const y = Math.round((line * box.h) / lines);
      const right = Math.round(((column + end - start) * box.w) / tile.columns);
      const bottom = Math.round(((line + 1) * box.h) / lines);
      return { x: box.x + x, y: box.y + y, w: right - x, h: bottom - y };
    };
    for (let start = 0; start < tile.gpus; ) {
      const cell = appearance.cells[start] ?? [];
      const whole = cell.length === 1 && (cell[0]?.share ?? 0) >= 1 ? cell[0] : undefined;
      const lineEnd = Math.min(tile.gpus, (Math.floor(start / tile.columns) + 1) * tile.columns);
      let end = start + 1;
      while (whole && end < lineEnd && same(appearance.cells[end], whole)) end++;
      this.#brush.stack(part(start, end), cell, false);
      start = end;
    }
    for (const gpu of appearance.lost) this.#brush.cross(colours.states.lost, part(gpu, gpu + 1), camera.ratio);
  }

  #paintCells(source: PaintSource, camera: Camera, detail: Detail, tile: NodeTile, appearance: CellAppearance): void {
    const brush = this.#brush;
    const { colours } = source;
    const meter = detail.names ? appearance.meter : undefined;
    for (let gpu = 0; gpu < tile.gpus; gpu++) {
      const cell = appearance.cells[gpu] ?? [];
      const unit = cellBox(tile, gpu, detail.names);
      if (meter) unit.h -= METER;
      const box = toPixels(camera, unit);
      if ((cell[0]?.share ?? 0) < 1)
        this.#paintFree(box, colours, detail.names ? Math.round(camera.ratio * 0.75) || 1 : 0);
      brush.stack(box, cell, true);
      if (detail.names && cell.length > 0) brush.shine(box, cell, camera.ratio);
      if (appearance.lost.includes(gpu)) {
        brush.cross(colours.states.lost, box, camera.ratio * Math.max(1, camera.scale));
      } else if (detail.holders) {
        paintHolders(brush.pen, camera, colours, gpu, box, cell, source.holdersOf(tile.id, gpu));
      } else if (detail.numbers) {
        paintNumber(brush.pen, camera, colours, gpu, box, cell);
      }
    }
    if (meter) this.#paintMeter(camera, tile, meter, colours);
  }

  /** A free GPU. */
  #paintFree(box: Pixels, colours: ColourTheme, edge: number): void {
    if (edge === 0) {
      this.#brush.soft(colours.free, box);
      return;
    }
    this.#brush.soft(colours.freeEdge, box);
    this.#brush.rect(colours.free, { x: box.x + edge, y: box.y + edge, w: box.w - 2 * edge, h: box.h - 2 * edge });
  }

  /** A node without GPUs: its CPU as one bar. */
  #paintCpuNode(
    camera: Camera,
    detail: Detail,
    tile: NodeTile,
    appearance: CellAppearance,
    colours: ColourTheme,
  ): void {
    const top = detail.names ? HEADER : TILE_PAD;
    const box = toPixels(camera, {
      x: tile.x + TILE_PAD,
      y: tile.y + top,
      w: tile.w - 2 * TILE_PAD,
      h: tile.h - top - TILE_PAD,
    });
    this.#brush.soft(colours.free, box);
    if (!appearance.meter) return;
    const fill = this.#brush.textures.fill(appearance.meter.colour, appearance.meter.texture);
    this.#brush.soft(fill, { ...box, w: Math.max(1, Math.round(box.w * appearance.meter.share)) });
  }

  #paintMeter(camera: Camera, tile: NodeTile, meter: Segment, colours: ColourTheme): void {
    const box = toPixels(camera, {
      x: tile.x + TILE_PAD,
      y: tile.y + tile.h - TILE_PAD - 1.2,
      w: tile.w - 2 * TILE_PAD,
      h: 1.4,
    });
    this.#brush.rect(colours.free, box);
    this.#brush.rect(meter.colour, { ...box, w: Math.round(box.w * meter.share) });
  }
}

function same(cell: readonly Segment[] | undefined, as: Segment): boolean {
  const only = cell?.length === 1 ? cell[0] : undefined;
  return only !== undefined && only.share >= 1 && only.colour === as.colour && only.texture === as.texture;
}
