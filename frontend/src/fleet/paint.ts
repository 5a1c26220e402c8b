/** Paints nodes: all that are in the window, or only those that changed. */
import { Brush } from "./brush";
import { HEADER, TILE_GAP, TILE_PAD, type Tile } from "./cabinets";
import { detailAt, inView, toPixels, toPixelsBeside, type Camera, type Detail, type Pixels } from "./camera";
import type { Look, Segment } from "./colouring";
import { cellBox } from "./hit";
import { paintHolders, paintName, paintNumber } from "./labels";
import type { Layout } from "./layout";
import { paintScenery } from "./scenery";
import type { Skin } from "./skin";

/** What there is to paint. */
export interface Scene {
  layout: Layout;
  skin: Skin;
  lookOf(id: string): Look | undefined;
  /** Names of whoever holds a GPU, from the bottom up. */
  holdersOf(id: string, gpu: number): string[];
  dimmed(id: string): boolean;
  /** How fresh the node's last change is: 1 just now, 0 not lately. */
  freshness(id: string): number;
}

/** The meter below the cells takes this much of them. */
const METER = 2.2;

export class Painter {
  readonly #brush: Brush;

  constructor(canvas: HTMLCanvasElement) {
    this.#brush = new Brush(canvas);
  }

  /** Paints the whole window. */
  paintAll(scene: Scene, camera: Camera): void {
    const { ratio } = camera;
    this.#brush.textures.anchorTo(camera.x * ratio, camera.y * ratio, ratio);
    paintScenery(this.#brush.pen, scene.layout, camera, scene.skin);
    for (const rack of scene.layout.racks) {
      if (inView(camera, rack)) this.#paint(scene, camera, rack.tiles, false);
    }
  }

  /** Paints some nodes over what they looked like before. */
  paintTiles(scene: Scene, camera: Camera, tiles: Iterable<Tile>): void {
    this.#paint(scene, camera, tiles, true);
  }

  #paint(scene: Scene, camera: Camera, tiles: Iterable<Tile>, over: boolean): void {
    const detail = detailAt(camera.scale);
    for (const tile of tiles) {
      if (!inView(camera, tile)) continue;
      const look = scene.lookOf(tile.id);
      if (look) this.#tile(scene, camera, detail, tile, look, over);
    }
    this.#brush.pen.globalAlpha = 1;
  }

  #tile(scene: Scene, camera: Camera, detail: Detail, tile: Tile, look: Look, over: boolean): void {
    const brush = this.#brush;
    const { pen } = brush;
    const { skin } = scene;
    const unit = camera.scale * camera.ratio;
    // From far a gap is less than a pixel: were it rounded, some nodes would grow together.
    const box = detail.cells ? toPixels(camera, tile) : toPixelsBeside(camera, tile, TILE_GAP);
    const dimmed = scene.dimmed(tile.id);
    pen.globalAlpha = 1;
    if (detail.cells) {
      if (over) brush.rect(skin.rack, box);
      brush.round(skin.tile, box, 1.8 * unit);
    } else {
      brush.rect(skin.free, box);
    }
    pen.globalAlpha = dimmed ? skin.dimmed : 1;
    if (tile.gpus === 0) this.#machine(camera, detail, tile, look, skin);
    else if (detail.cells) this.#cells(scene, camera, detail, tile, look);
    else this.#runs(camera, box, tile, look, skin);
    if (detail.names) {
      pen.globalAlpha = dimmed ? 0.35 : 1;
      paintName(pen, camera, skin, tile, look);
    } else if (look.state !== "healthy" && look.state !== "lost") {
      // From far, a node that is not well has a coloured edge.
      pen.globalAlpha = 1;
      brush.rect(skin.states[look.state], { ...box, w: Math.max(2, Math.round(Math.min(3 * camera.ratio, 2.4 * unit))) });
    }
    this.#freshness(scene.freshness(tile.id) * (dimmed ? 0.1 : 0.45), skin, detail.cells ? { ...box, h: Math.max(1, Math.round(1.2 * unit)) } : box);
  }

  #freshness(strength: number, skin: Skin, box: Pixels): void {
    if (strength <= 0) return;
    this.#brush.pen.globalAlpha = strength;
    this.#brush.rect(skin.text, box);
  }

  /** From far: neighbours of one colour are one rectangle. */
  #runs(camera: Camera, box: Pixels, tile: Tile, look: Look, skin: Skin): void {
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
      const cell = look.cells[start] ?? [];
      const whole = cell.length === 1 && (cell[0]?.share ?? 0) >= 1 ? cell[0] : undefined;
      const lineEnd = Math.min(tile.gpus, (Math.floor(start / tile.columns) + 1) * tile.columns);
      let end = start + 1;
      while (whole && end < lineEnd && same(look.cells[end], whole)) end++;
      this.#brush.stack(part(start, end), cell, false);
      start = end;
    }
    for (const gpu of look.lost) this.#brush.cross(skin.states.lost, part(gpu, gpu + 1), camera.ratio);
  }

  #cells(scene: Scene, camera: Camera, detail: Detail, tile: Tile, look: Look): void {
    const brush = this.#brush;
    const { skin } = scene;
    const meter = detail.names ? look.meter : undefined;
    for (let gpu = 0; gpu < tile.gpus; gpu++) {
      const cell = look.cells[gpu] ?? [];
      const unit = cellBox(tile, gpu, detail.names);
      if (meter) unit.h -= METER;
      const box = toPixels(camera, unit);
      if ((cell[0]?.share ?? 0) < 1) this.#free(box, skin, detail.names ? Math.round(camera.ratio * 0.75) || 1 : 0);
      brush.stack(box, cell, true);
      if (detail.names && cell.length > 0) brush.shine(box, cell, camera.ratio);
      if (look.lost.includes(gpu)) {
        brush.cross(skin.states.lost, box, camera.ratio * Math.max(1, camera.scale));
      } else if (detail.holders) {
        paintHolders(brush.pen, camera, skin, gpu, box, cell, scene.holdersOf(tile.id, gpu));
      } else if (detail.numbers) {
        paintNumber(brush.pen, camera, skin, gpu, box, cell);
      }
    }
    if (meter) this.#meter(camera, tile, meter, skin);
  }

  /** A hollow where nobody holds anything. */
  #free(box: Pixels, skin: Skin, edge: number): void {
    if (edge === 0) {
      this.#brush.soft(skin.free, box);
      return;
    }
    this.#brush.soft(skin.freeEdge, box);
    this.#brush.rect(skin.free, { x: box.x + edge, y: box.y + edge, w: box.w - 2 * edge, h: box.h - 2 * edge });
  }

  /** A node without GPUs: its cores as one bar. */
  #machine(camera: Camera, detail: Detail, tile: Tile, look: Look, skin: Skin): void {
    const top = detail.names ? HEADER : TILE_PAD;
    const box = toPixels(camera, {
      x: tile.x + TILE_PAD, y: tile.y + top, w: tile.w - 2 * TILE_PAD, h: tile.h - top - TILE_PAD,
    });
    this.#brush.soft(skin.free, box);
    if (!look.meter) return;
    const fill = this.#brush.textures.fill(look.meter.colour, look.meter.texture);
    this.#brush.soft(fill, { ...box, w: Math.max(1, Math.round(box.w * look.meter.share)) });
  }

  #meter(camera: Camera, tile: Tile, meter: Segment, skin: Skin): void {
    const box = toPixels(camera, {
      x: tile.x + TILE_PAD, y: tile.y + tile.h - TILE_PAD - 1.2, w: tile.w - 2 * TILE_PAD, h: 1.4,
    });
    this.#brush.rect(skin.free, box);
    this.#brush.rect(meter.colour, { ...box, w: Math.round(box.w * meter.share) });
  }
}

function same(cell: readonly Segment[] | undefined, as: Segment): boolean {
  const only = cell?.length === 1 ? cell[0] : undefined;
  return only !== undefined && only.share >= 1 && only.colour === as.colour && only.texture === as.texture;
}
