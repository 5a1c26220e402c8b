/**
 * The map on its canvas: knows what must be painted, and paints it.
 *
 * Everything asks for a frame; a frame paints all when the window or the colouring
 * changed, else only the nodes that did.
 */
import type { Tile } from "./cabinets";
import { detailAt } from "./camera";
import { lookOf, type Look } from "./colouring";
import { cellBox, spotAt, type Spot } from "./hit";
import { ownerName, type Changes, type FleetNode, type Holdings } from "./holdings";
import { layOut, type Layout, type Room } from "./layout";
import { Painter, type Scene } from "./paint";
import type { Box } from "./shelves";
import { skins } from "./skin";
import { dimmed, shown, type View } from "./view";
import { Viewport, type MapParts, type Point } from "./viewport";

/** How painting went, for tests and the curious. */
export interface Frames {
  painted: number;
  /** Frames whose painting took longer than 16 ms. */
  slow: number;
  /** Milliseconds of the longest. */
  longest: number;
}

const FRESH_MS = 500;
const LAY_OUT_EVERY_MS = 400;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class FleetMap implements Scene {
  layout: Layout;
  readonly frames: Frames = { painted: 0, slow: 0, longest: 0 };
  /** Called after the camera moved. */
  onMove: () => void = () => {};

  readonly #viewport: Viewport;
  readonly #holdings: Holdings;
  readonly #painter: Painter;
  #view: View;
  #looks = new Map<string, { version: number; look: Look; dimmed: boolean }>();
  #fresh = new Map<string, number>();
  #dirty = new Set<string>();
  #all = true;
  /** The window that the layout was made for. */
  #room: Room = { width: 1, height: 1 };
  #dearest = 1;
  #frame = 0;
  #later = 0;
  #laidOutAt = -Infinity;

  constructor(parts: MapParts, holdings: Holdings, view: View) {
    this.#viewport = new Viewport(parts);
    this.#holdings = holdings;
    this.#view = view;
    this.#painter = new Painter(parts.canvas);
    this.layout = layOut([], this.#room);
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
    const now = performance.now();
    if (changes.shape) this.#layOutSoon(now);
    for (const id of changes.nodes) this.#dirty.add(id);
    if (!calm.matches) for (const id of changes.given) this.#fresh.set(id, now);
    this.#ask();
  }

  /**
   * Fits the canvas to its window. With `hold` everything stays where it is and the
   * window only shows less: what was just clicked must not move away.
   */
  resize(hold: boolean): void {
    if (!this.#viewport.measure()) return;
    const { width, height } = this.#viewport.camera;
    const laidOut = this.#room.width > 1;
    if (!laidOut || (!hold && (width !== this.#room.width || height !== this.#room.height))) this.#layOut();
    this.#moved();
    // A canvas is blank after its size changed: paint before the browser shows it.
    this.#paint();
  }

  scrolled(): void {
    this.#moved();
  }

  /** Zooms by a factor, keeping a point of the window (CSS pixels) or a spot where it is. */
  zoomBy(factor: number, around?: Spot | Point): void {
    this.#viewport.zoom(this.layout, factor, this.#pointOf(around));
    this.#moved();
  }

  /** As it was first shown. */
  zoomHome(): void {
    this.#viewport.home(this.layout);
    this.#moved();
  }

  /** What is at a point of the window. */
  spotAt(x: number, y: number): Spot | undefined {
    const { camera } = this.#viewport;
    return spotAt(this.layout, (camera.x + x) / camera.scale, (camera.y + y) / camera.scale, this.#named());
  }

  /** Where a spot is in the window, in CSS pixels. */
  boxOf(spot: Spot): Box | undefined {
    const tile = this.layout.byId.get(spot.node);
    if (!tile) return undefined;
    const box = spot.gpu === undefined ? tile : cellBox(tile, spot.gpu, this.#named());
    const { scale, x, y } = this.#viewport.camera;
    return { x: box.x * scale - x, y: box.y * scale - y, w: box.w * scale, h: box.h * scale };
  }

  /** Scrolls so that a spot can be seen. */
  reveal(spot: Spot): void {
    const box = this.boxOf(spot);
    if (!box) return;
    const { width, height } = this.#viewport.camera;
    const edge = 24;
    const dx = box.x < edge ? box.x - edge : Math.max(0, box.x + box.w + edge - width);
    const dy = box.y < edge ? box.y - edge : Math.max(0, box.y + box.h + edge - height);
    this.#viewport.scrollBy(dx, dy);
  }

  close(): void {
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#later);
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

  #pointOf(around: Spot | Point | undefined): Point {
    if (around && "x" in around) return around;
    const { width, height } = this.#viewport.camera;
    const box = around && this.boxOf(around);
    const middle = box && { x: box.x + box.w / 2, y: box.y + box.h / 2 };
    const seen = middle && middle.x > 0 && middle.y > 0 && middle.x < width && middle.y < height;
    return seen ? middle : { x: width / 2, y: height / 2 };
  }

  #named(): boolean {
    return detailAt(this.#viewport.camera.scale).names;
  }

  /** While nodes join one by one, the map is not laid out anew for each. */
  #layOutSoon(now: number): void {
    if (this.#later) return;
    const wait = this.#laidOutAt + LAY_OUT_EVERY_MS - now;
    if (wait <= 0) this.#layOut();
    else this.#later = window.setTimeout(() => this.#layOut(), wait);
  }

  #layOut(): void {
    clearTimeout(this.#later);
    this.#later = 0;
    this.#laidOutAt = performance.now();
    const { width, height } = this.#viewport.camera;
    if (!width || !height) return;
    const rows = [...this.#holdings.nodes.values()].map((node) => node.row);
    this.#dearest = Math.max(0.01, ...rows.map((row) => row.price ?? 0));
    this.#room = { width, height };
    this.layout = layOut(rows.filter((row) => shown(row, this.#view)), this.#room);
    this.#looks.clear();
    this.#moved();
  }

  #moved(): void {
    this.#viewport.place(this.layout);
    this.onMove();
    this.#paintAll();
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
      this.#painter.paintAll(this, this.#viewport.camera);
    } else {
      for (const id of this.#fresh.keys()) this.#dirty.add(id);
      this.#painter.paintTiles(this, this.#viewport.camera, this.#dirtyTiles());
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
