/** Paints nodes: all that are in the window, or only those that changed. */
import { HEADER, TILE_PAD, type Tile } from "./cabinets";
import { detailAt, inView, toPixels, type Camera, type Detail, type Pixels } from "./camera";
import type { Look, Segment } from "./colouring";
import { cellBox } from "./hit";
import type { Layout } from "./layout";
import { FONT, paintScenery, shortened } from "./scenery";
import type { Skin } from "./skin";
import type { State } from "./state";
import { Textures } from "./textures";

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

const STATE_SIGN: Record<State, string> = {
  healthy: "", lost: "✕", "not ready": "▲", cordoned: "⊘", unknown: "?",
};

export class Painter {
  readonly #pen: CanvasRenderingContext2D;
  readonly #textures: Textures;

  constructor(canvas: HTMLCanvasElement) {
    const pen = canvas.getContext("2d", { alpha: false });
    if (!pen) throw new Error("this browser cannot draw on a canvas");
    this.#pen = pen;
    this.#textures = new Textures(pen);
  }

  /** Paints the whole window. */
  paintAll(scene: Scene, camera: Camera): void {
    const { ratio } = camera;
    this.#textures.anchorTo(camera.x * ratio, camera.y * ratio, ratio);
    paintScenery(this.#pen, scene.layout, camera, scene.skin);
    for (const rack of scene.layout.racks) {
      if (!inView(camera, rack)) continue;
      this.#paint(scene, camera, rack.tiles, false);
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
    this.#pen.globalAlpha = 1;
  }

  #tile(
    scene: Scene, camera: Camera, detail: Detail, tile: Tile, look: Look, over: boolean,
  ): void {
    const pen = this.#pen;
    const { skin } = scene;
    const box = toPixels(camera, tile);
    pen.globalAlpha = 1;
    if (detail.cells) {
      if (over) this.#rect(skin.rack, box);
      rounded(pen, box, 1.8 * camera.scale * camera.ratio, skin.tile);
    } else {
      this.#rect(skin.free, box);
    }
    const dimmed = scene.dimmed(tile.id);
    pen.globalAlpha = dimmed ? skin.dimmed : 1;
    if (tile.gpus === 0) this.#machine(camera, detail, tile, look, skin);
    else if (detail.cells) this.#cells(scene, camera, detail, tile, look);
    else this.#runs(camera, tile, look);
    if (detail.names) this.#header(camera, skin, tile, look, dimmed);
    else if (look.state !== "healthy" && look.state !== "lost") this.#flag(camera, box, look, skin);
    const fresh = scene.freshness(tile.id);
    if (fresh > 0) {
      pen.globalAlpha = fresh * (dimmed ? 0.1 : 0.45);
      this.#rect(skin.text, detail.cells ? { ...box, h: Math.max(1, Math.round(1.2 * camera.scale * camera.ratio)) } : box);
    }
  }

  /** From far: neighbours of one colour are one rectangle. */
  #runs(camera: Camera, tile: Tile, look: Look): void {
    const lines = Math.ceil(tile.gpus / tile.columns);
    const width = tile.w / tile.columns;
    const height = tile.h / lines;
    for (let start = 0; start < tile.gpus; ) {
      const cell = look.cells[start] ?? [];
      const whole = cell.length === 1 && (cell[0]?.share ?? 0) >= 1 ? cell[0] : undefined;
      const lineEnd = Math.min(tile.gpus, (Math.floor(start / tile.columns) + 1) * tile.columns);
      let end = start + 1;
      while (whole && end < lineEnd && same(look.cells[end], whole)) end++;
      const x = tile.x + (start % tile.columns) * width;
      const y = tile.y + Math.floor(start / tile.columns) * height;
      this.#stack(toPixels(camera, { x, y, w: (end - start) * width, h: height }), cell, false);
      for (const gpu of look.lost) {
        if (gpu === start) this.#cross(toPixels(camera, { x, y, w: width, h: height }), camera.ratio);
      }
      start = end;
    }
  }

  #cells(scene: Scene, camera: Camera, detail: Detail, tile: Tile, look: Look): void {
    const { skin } = scene;
    for (let gpu = 0; gpu < tile.gpus; gpu++) {
      const cell = look.cells[gpu] ?? [];
      const unit = cellBox(tile, gpu, detail.names);
      if (detail.names && look.meter) unit.h -= 2.2;
      const box = toPixels(camera, unit);
      const filled = (cell[0]?.share ?? 0) >= 1;
      if (!filled) {
        this.#soft(skin.freeEdge, box);
        const edge = detail.names ? Math.max(1, Math.round(camera.ratio * 0.75)) : 0;
        if (edge) this.#rect(skin.free, { x: box.x + edge, y: box.y + edge, w: box.w - 2 * edge, h: box.h - 2 * edge });
        else this.#soft(skin.free, box);
      }
      this.#stack(box, cell, true);
      if (detail.names && cell.length > 0) this.#shine(box, cell, camera.ratio);
      if (look.lost.includes(gpu)) this.#cross(box, camera.ratio * Math.max(1, camera.scale));
      if (detail.numbers) this.#label(scene, camera, detail, tile, gpu, box, cell);
    }
    if (detail.names && look.meter) this.#meter(camera, tile, look.meter, skin);
  }

  /** Segments from the bottom up. */
  #stack(box: Pixels, cell: readonly Segment[], soft: boolean): void {
    let below = 0;
    for (const segment of cell) {
      const fill = this.#textures.fill(segment.colour, segment.texture);
      const bottom = box.y + box.h - Math.round(below * box.h);
      below = Math.min(1, below + segment.share);
      const top = box.y + box.h - Math.round(below * box.h);
      const part = { x: box.x, y: top, w: box.w, h: Math.max(1, bottom - top) };
      if (soft) this.#soft(fill, part);
      else this.#rect(fill, part);
    }
  }

  /** A lighter line along the top of what fills a cell. */
  #shine(box: Pixels, cell: readonly Segment[], ratio: number): void {
    const filled = Math.min(1, cell.reduce((sum, segment) => sum + segment.share, 0));
    const y = box.y + box.h - Math.round(filled * box.h);
    this.#rect("rgba(255, 255, 255, 0.22)", { x: box.x + 1, y, w: box.w - 2, h: Math.round(ratio) });
  }

  /** A node without GPUs: its cores as one bar. */
  #machine(camera: Camera, detail: Detail, tile: Tile, look: Look, skin: Skin): void {
    const top = detail.names ? HEADER : TILE_PAD;
    const box = toPixels(camera, {
      x: tile.x + TILE_PAD, y: tile.y + top, w: tile.w - 2 * TILE_PAD, h: tile.h - top - TILE_PAD,
    });
    this.#soft(skin.free, box);
    if (!look.meter) return;
    const fill = this.#textures.fill(look.meter.colour, look.meter.texture);
    this.#soft(fill, { ...box, w: Math.max(1, Math.round(box.w * look.meter.share)) });
  }

  #meter(camera: Camera, tile: Tile, meter: Segment, skin: Skin): void {
    const box = toPixels(camera, {
      x: tile.x + TILE_PAD, y: tile.y + tile.h - TILE_PAD - 1.2, w: tile.w - 2 * TILE_PAD, h: 1.4,
    });
    this.#rect(skin.free, box);
    this.#rect(meter.colour, { ...box, w: Math.round(box.w * meter.share) });
  }

  #header(camera: Camera, skin: Skin, tile: Tile, look: Look, dimmed: boolean): void {
    const pen = this.#pen;
    const scale = camera.scale * camera.ratio;
    const size = Math.min(0.62 * HEADER * scale, 15 * camera.ratio);
    const sign = STATE_SIGN[look.state];
    const box = toPixels(camera, { x: tile.x + TILE_PAD + 0.6, y: tile.y, w: tile.w - 2 * TILE_PAD - 1, h: HEADER });
    pen.globalAlpha = dimmed ? 0.35 : 1;
    pen.font = `500 ${size}px ${FONT}`;
    pen.textBaseline = "middle";
    pen.textAlign = "left";
    pen.fillStyle = skin.text;
    const middle = box.y + box.h / 2 + size * 0.06;
    pen.fillText(shortened(tile.id, box.w - (sign ? size : 0), size), box.x, middle);
    if (!sign) return;
    pen.textAlign = "right";
    pen.fillStyle = skin.states[look.state];
    pen.fillText(sign, box.x + box.w, middle);
  }

  /** From far, a node that is not well has a coloured edge. */
  #flag(camera: Camera, box: Pixels, look: Look, skin: Skin): void {
    const w = Math.max(2, Math.round(Math.min(3, 2.4 * camera.scale) * camera.ratio));
    this.#pen.globalAlpha = 1;
    this.#rect(skin.states[look.state], { ...box, w });
  }

  #label(
    scene: Scene, camera: Camera, detail: Detail, tile: Tile, gpu: number, box: Pixels, cell: readonly Segment[],
  ): void {
    const pen = this.#pen;
    const size = Math.min(12, 3.6 * camera.scale) * camera.ratio;
    const held = cell.length > 0 && !cell[0]?.texture && (cell[0]?.share ?? 0) > 0.6;
    pen.textBaseline = "middle";
    pen.fillStyle = held ? scene.skin.onCell : scene.skin.faint;
    pen.font = `600 ${size}px ${FONT}`;
    if (!detail.holders) {
      pen.textAlign = "center";
      pen.fillText(String(gpu), box.x + box.w / 2, box.y + box.h / 2);
      return;
    }
    pen.textAlign = "left";
    const left = box.x + size * 0.5;
    pen.fillText(String(gpu), left, box.y + size * 0.9);
    pen.font = `500 ${size * 0.92}px ${FONT}`;
    const names = scene.holdersOf(tile.id, gpu);
    const room = Math.floor((box.h - size * 1.8) / (size * 1.15));
    names.slice(0, room).forEach((name, line) => {
      pen.fillText(shortened(name, box.w - size, size * 0.92), left, box.y + box.h - size * (0.9 + 1.15 * line));
    });
  }

  #cross(box: Pixels, thick: number): void {
    const pen = this.#pen;
    pen.strokeStyle = "#ff4d4d";
    pen.lineWidth = Math.max(1, thick * 1.1);
    pen.beginPath();
    pen.moveTo(box.x, box.y);
    pen.lineTo(box.x + box.w, box.y + box.h);
    pen.moveTo(box.x + box.w, box.y);
    pen.lineTo(box.x, box.y + box.h);
    pen.stroke();
  }

  #rect(fill: string | CanvasPattern, { x, y, w, h }: Pixels): void {
    this.#pen.fillStyle = fill;
    this.#pen.fillRect(x, y, w, h);
  }

  /** A rectangle without its corner pixels: looks round, and is far cheaper than a path. */
  #soft(fill: string | CanvasPattern, { x, y, w, h }: Pixels): void {
    const pen = this.#pen;
    pen.fillStyle = fill;
    if (w < 6 || h < 4) {
      pen.fillRect(x, y, w, h);
    } else if (w < 34) {
      pen.fillRect(x + 1, y, w - 2, h);
      pen.fillRect(x, y + 1, 1, h - 2);
      pen.fillRect(x + w - 1, y + 1, 1, h - 2);
    } else {
      pen.beginPath();
      pen.roundRect(x, y, w, h, Math.min(w * 0.07, h / 2));
      pen.fill();
    }
  }
}

function same(cell: readonly Segment[] | undefined, as: Segment): boolean {
  const only = cell?.length === 1 ? cell[0] : undefined;
  return only !== undefined && only.share >= 1 && only.colour === as.colour && only.texture === as.texture;
}

function rounded(pen: CanvasRenderingContext2D, box: Pixels, radius: number, fill: string): void {
  pen.fillStyle = fill;
  if (radius < 2) {
    pen.fillRect(box.x, box.y, box.w, box.h);
    return;
  }
  pen.beginPath();
  pen.roundRect(box.x, box.y, box.w, box.h, radius);
  pen.fill();
}
