/**
 * The map on its canvas: keeps the camera, and paints what must be painted.
 *
 * The canvas is as large as the window onto the map and stays in place; a block
 * as large as the whole map scrolls behind it, so that wheel, touch, momentum and
 * scroll bars are the browser's own. Everything asks for a frame; a frame paints
 * all when the camera or the colouring moved, else only the nodes that changed.
 */
import type { Tile } from "./cabinets";
import { detailAt, type Camera } from "./camera";
import { lookOf, type Look } from "./colouring";
import { cellBox, spotAt, type Spot } from "./hit";
import { ownerName, type Changes, type FleetNode, type Holdings } from "./holdings";
import { layOut, type Layout } from "./layout";
import { Painter, type Scene } from "./paint";
import type { Box } from "./shelves";
import { skins } from "./skin";
import { dimmed, shown, type View } from "./view";

export interface MapParts {
  /** Scrolls. */
  scroller: HTMLElement;
  /** Is as large as the whole map. */
  ground: HTMLElement;
  canvas: HTMLCanvasElement;
}

/** How painting went, for tests and the curious. */
export interface Frames {
  painted: number;
  /** Frames whose painting took longer than 16 ms. */
  slow: number;
  /** Milliseconds of the longest. */
  longest: number;
}

const CLOSEST = 9;
const FRESH_MS = 500;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class FleetMap implements Scene {
  layout: Layout;
  readonly frames: Frames = { painted: 0, slow: 0, longest: 0 };
  /** Called after the camera moved. */
  onMove: () => void = () => {};

  readonly #parts: MapParts;
  readonly #holdings: Holdings;
  readonly #painter: Painter;
  #view: View;
  #camera: Camera = { scale: 1, x: 0, y: 0, width: 0, height: 0, ratio: 1 };
  #looks = new Map<string, { version: number; look: Look; dimmed: boolean }>();
  #fresh = new Map<string, number>();
  #dirty = new Set<string>();
  #all = true;
  #zoom = 1;
  #dearest = 1;
  #frame = 0;

  constructor(parts: MapParts, holdings: Holdings, view: View) {
    this.#parts = parts;
    this.#holdings = holdings;
    this.#view = view;
    this.#painter = new Painter(parts.canvas);
    this.layout = layOut([], { width: 1, height: 1 });
  }

  /** Shows the fleet in another way. */
  show(view: View): void {
    const before = this.#view;
    this.#view = view;
    this.#looks.clear();
    if (before.zone !== view.zone || before.product !== view.product) this.#layOut();
    this.#paintAll();
  }

  /** Takes over what changed. */
  take(changes: Changes): void {
    if (changes.shape) this.#layOut();
    const now = performance.now();
    for (const id of changes.nodes) this.#dirty.add(id);
    if (!calm.matches) for (const id of changes.given) this.#fresh.set(id, now);
    this.#ask();
  }

  /** Fits the canvas to its window. */
  resize(): void {
    const { scroller, canvas } = this.#parts;
    const width = scroller.clientWidth;
    const height = scroller.clientHeight;
    const ratio = window.devicePixelRatio || 1;
    if (!width || !height) return;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const same = width === this.#camera.width && height === this.#camera.height;
    this.#camera = { ...this.#camera, width, height, ratio };
    if (!same) this.#layOut();
    this.#paintAll();
    // A canvas is blank after its size changed: paint before the browser shows it.
    this.#paint();
  }

  scrolled(): void {
    this.#place();
    this.#paintAll();
  }

  /** Zooms by a factor, keeping what is at a point of the window (CSS pixels) where it is. */
  zoomBy(factor: number, x = this.#camera.width / 2, y = this.#camera.height / 2): void {
    const { scroller } = this.#parts;
    const before = this.#camera;
    const at = { x: (before.x + x) / before.scale, y: (before.y + y) / before.scale };
    this.#zoom = Math.min(CLOSEST / this.layout.scale, Math.max(this.#farthest(), this.#zoom * factor));
    this.#place();
    scroller.scrollLeft = at.x * this.#camera.scale - x;
    scroller.scrollTop = at.y * this.#camera.scale - y;
    this.#place();
    this.#paintAll();
  }

  /** As it was first shown. */
  zoomHome(): void {
    this.#zoom = 1;
    this.#place();
    this.#parts.scroller.scrollTo(0, 0);
    this.#place();
    this.#paintAll();
  }

  /** What is at a point of the window. */
  spotAt(x: number, y: number): Spot | undefined {
    const { scale } = this.#camera;
    return spotAt(this.layout, (this.#camera.x + x) / scale, (this.#camera.y + y) / scale, this.#named());
  }

  /** Where a spot is in the window, in CSS pixels. */
  boxOf(spot: Spot): Box | undefined {
    const tile = this.layout.byId.get(spot.node);
    if (!tile) return undefined;
    const box = spot.gpu === undefined ? tile : cellBox(tile, spot.gpu, this.#named());
    const { scale, x, y } = this.#camera;
    return { x: box.x * scale - x, y: box.y * scale - y, w: box.w * scale, h: box.h * scale };
  }

  /** Scrolls so that a spot can be seen. */
  reveal(spot: Spot): void {
    const box = this.boxOf(spot);
    if (!box) return;
    const { scroller } = this.#parts;
    const { width, height } = this.#camera;
    const edge = 24;
    const dx = box.x < edge ? box.x - edge : Math.max(0, box.x + box.w + edge - width);
    const dy = box.y < edge ? box.y - edge : Math.max(0, box.y + box.h + edge - height);
    if (dx || dy) scroller.scrollBy(dx, dy);
  }

  close(): void {
    cancelAnimationFrame(this.#frame);
  }

  // What the painter asks.

  get skin() {
    return skins[this.#view.theme];
  }

  lookOf(id: string): Look | undefined {
    return this.#known(id)?.look;
  }

  dimmed(id: string): boolean {
    return this.#known(id)?.dimmed ?? false;
  }

  holdersOf(id: string, gpu: number): string[] {
    return (this.#holdings.nodes.get(id)?.gpus[gpu] ?? []).map(({ pod }) => ownerName(pod.workload));
  }

  freshness(id: string): number {
    const since = this.#fresh.get(id);
    return since === undefined ? 0 : Math.max(0, 1 - (performance.now() - since) / FRESH_MS);
  }

  #known(id: string): { look: Look; dimmed: boolean } | undefined {
    const node = this.#holdings.nodes.get(id);
    if (!node) return undefined;
    let known = this.#looks.get(id);
    if (known?.version !== node.version) {
      known = { version: node.version, ...this.#see(node) };
      this.#looks.set(id, known);
    }
    return known;
  }

  #see(node: FleetNode): { look: Look; dimmed: boolean } {
    const { mode, theme, owner } = this.#view;
    const look = lookOf(node, { mode, theme, owner, dearest: this.#dearest });
    return { look, dimmed: dimmed(node, this.#view) };
  }

  #named(): boolean {
    return detailAt(this.#camera.scale).names;
  }

  /** The zoom at which the whole map is in the window. */
  #farthest(): number {
    return Math.min(1, this.#camera.height / (this.layout.h * this.layout.scale));
  }

  #layOut(): void {
    const { width, height } = this.#camera;
    if (!width || !height) return;
    const rows = [...this.#holdings.nodes.values()].map((node) => node.row);
    this.#dearest = Math.max(0.01, ...rows.map((row) => row.price ?? 0));
    this.layout = layOut(rows.filter((row) => shown(row, this.#view)), { width, height });
    this.#looks.clear();
    this.#place();
    this.#paintAll();
  }

  /** Makes the ground as large as the map, and reads where it is scrolled to. */
  #place(): void {
    const { ground, scroller } = this.#parts;
    const { width, height, ratio } = this.#camera;
    const scale = this.layout.scale * this.#zoom;
    const wide = this.layout.w * scale;
    const high = this.layout.h * scale;
    ground.style.width = `${wide > width + 1 ? Math.ceil(wide) : width}px`;
    ground.style.height = `${high > height + 1 ? Math.ceil(high) : height}px`;
    this.#camera = {
      scale, width, height, ratio,
      x: wide > width + 1 ? scroller.scrollLeft : (wide - width) / 2,
      y: high > height + 1 ? scroller.scrollTop : 0,
    };
    this.onMove();
  }

  #paintAll(): void {
    this.#all = true;
    this.#ask();
  }

  #ask(): void {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#paint();
    });
  }

  #paint(): void {
    const began = performance.now();
    if (this.#all) {
      this.#painter.paintAll(this, this.#camera);
    } else {
      for (const id of this.#fresh.keys()) this.#dirty.add(id);
      this.#painter.paintTiles(this, this.#camera, this.#dirtyTiles());
    }
    this.#all = false;
    this.#dirty.clear();
    const now = performance.now();
    for (const [id, since] of this.#fresh) {
      if (now - since < FRESH_MS) continue;
      this.#fresh.delete(id);
      this.#dirty.add(id);
    }
    this.#count(now - began);
    if (this.#fresh.size > 0 || this.#dirty.size > 0) this.#ask();
  }

  *#dirtyTiles(): Iterable<Tile> {
    for (const id of this.#dirty) {
      const tile = this.layout.byId.get(id);
      if (tile) yield tile;
    }
  }

  #count(took: number): void {
    this.frames.painted++;
    if (took > 16) this.frames.slow++;
    this.frames.longest = Math.max(this.frames.longest, took);
  }
}
