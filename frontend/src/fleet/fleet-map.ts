/**
 * The map on its canvas: tracks what has to be repainted, and repaints it.
 *
 * Every change requests an animation frame; a frame repaints everything when the viewport
 * or the colours changed, else only the nodes that changed.
 */

import { appearanceOf, type CellAppearance } from "../nodes/cell-colours";
import { colourThemes } from "../nodes/colour-theme";
import { type AllocationChanges, type FleetNode, type GpuAllocations, ownerName } from "../nodes/gpu-allocations";
import { isDimmed, isShown, type ViewQuery } from "../nodes/view-query";
import { detailAt } from "./canvas/camera";
import { Painter, type PaintSource } from "./canvas/painter";
import { cellBox, type HitTarget, hitTest } from "./layout/hit-test";
import { type AvailableSpace, type Layout, layOutFleet } from "./layout/layout";
import type { NodeTile } from "./layout/racks";
import type { Box } from "./layout/shelf-packing";
import { type MapParts, type Point, Viewport } from "./viewport";

/** Painting statistics, read by tests. */
export interface Frames {
  painted: number;
  /** Frames whose painting took longer than 16 ms. */
  slow: number;
  /** Milliseconds of the longest. */
  longest: number;
}

const FRESH_MS = 500;
const LAYOUT_INTERVAL_MS = 400;
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

export class FleetMap implements PaintSource {
  layout: Layout;
  readonly frames: Frames = { painted: 0, slow: 0, longest: 0 };
  /** Called after the camera moved. */
  onMove: () => void = () => {};

  readonly #viewport: Viewport;
  readonly #allocations: GpuAllocations;
  readonly #painter: Painter;
  #query: ViewQuery;
  #appearances = new Map<string, { version: number; appearance: CellAppearance; dimmed: boolean }>();
  #fresh = new Map<string, number>();
  #dirty = new Set<string>();
  #repaintAll = true;
  /** The viewport size that the layout was computed for. */
  #space: AvailableSpace = { width: 1, height: 1 };
  #highestPrice = 1;
  #frame = 0;
  #layoutTimer = 0;
  #laidOutAt = -Infinity;

  constructor(parts: MapParts, allocations: GpuAllocations, view: ViewQuery) {
    this.#viewport = new Viewport(parts);
    this.#allocations = allocations;
    this.#query = view;
    this.#painter = new Painter(parts.canvas);
    this.layout = layOutFleet([], this.#space);
  }

  /** Applies another query: filters, search, colours. */
  show(view: ViewQuery): void {
    const before = this.#query;
    this.#query = view;
    this.#appearances.clear();
    if (before.zone !== view.zone || before.product !== view.product) this.#layOut();
    this.#paintAll();
  }

  /** Schedules repaints for changed nodes. */
  applyChanges(changes: AllocationChanges): void {
    const now = performance.now();
    if (changes.topology) this.#layOutSoon(now);
    for (const id of changes.nodes) this.#dirty.add(id);
    if (!reducedMotion.matches) for (const id of changes.allocations) this.#fresh.set(id, now);
    this.#requestFrame();
  }

  /**
   * Fits the canvas to its container. With `hold` the layout is not recomputed: a node
   * that was just clicked must not move away when the details panel opens.
   */
  resize(hold: boolean): void {
    if (!this.#viewport.measure()) return;
    const { width, height } = this.#viewport.camera;
    const hasLayout = this.#space.width > 1;
    if (!hasLayout || (!hold && (width !== this.#space.width || height !== this.#space.height))) this.#layOut();
    this.#viewportChanged();
    // A resized canvas is blank: paint it before the browser shows it.
    this.#paint();
  }

  scrolled(): void {
    this.#viewportChanged();
  }

  /** Zooms by a factor, keeping a point of the viewport (CSS pixels) or a target in place. */
  zoomBy(factor: number, around?: HitTarget | Point): void {
    this.#viewport.zoom(this.layout, factor, this.#pointOf(around));
    this.#viewportChanged();
  }

  /** Returns to the initial zoom. */
  zoomHome(): void {
    this.#viewport.home(this.layout);
    this.#viewportChanged();
  }

  /** The target at a point of the viewport. */
  hitTest(x: number, y: number): HitTarget | undefined {
    const { camera } = this.#viewport;
    return hitTest(this.layout, (camera.x + x) / camera.scale, (camera.y + y) / camera.scale, this.#showsNames());
  }

  /** The box of a target within the viewport, in CSS pixels. */
  boxOf(target: HitTarget): Box | undefined {
    const tile = this.layout.byId.get(target.node);
    if (!tile) return undefined;
    const box = target.gpu === undefined ? tile : cellBox(tile, target.gpu, this.#showsNames());
    const { scale, x, y } = this.#viewport.camera;
    return { x: box.x * scale - x, y: box.y * scale - y, w: box.w * scale, h: box.h * scale };
  }

  /** Scrolls a target into view. */
  reveal(target: HitTarget): void {
    const box = this.boxOf(target);
    if (!box) return;
    const { width, height } = this.#viewport.camera;
    const edge = 24;
    const dx = box.x < edge ? box.x - edge : Math.max(0, box.x + box.w + edge - width);
    const dy = box.y < edge ? box.y - edge : Math.max(0, box.y + box.h + edge - height);
    this.#viewport.scrollBy(dx, dy);
  }

  close(): void {
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#layoutTimer);
  }

  // PaintSource.

  get colours() {
    return colourThemes[this.#query.theme];
  }

  appearanceOf(id: string): CellAppearance | undefined {
    return this.#cachedAppearance(id)?.appearance;
  }

  isDimmed(id: string): boolean {
    return this.#cachedAppearance(id)?.dimmed ?? false;
  }

  holdersOf(id: string, gpu: number): string[] {
    return (this.#allocations.nodes.get(id)?.gpus[gpu] ?? []).map(({ pod }) => ownerName(pod.workload));
  }

  freshness(id: string): number {
    const since = this.#fresh.get(id);
    return since === undefined ? 0 : Math.max(0, 1 - (performance.now() - since) / FRESH_MS);
  }

  #cachedAppearance(id: string): { appearance: CellAppearance; dimmed: boolean } | undefined {
    const node = this.#allocations.nodes.get(id);
    if (!node) return undefined;
    let known = this.#appearances.get(id);
    if (known?.version !== node.version) {
      known = { version: node.version, ...this.#computeAppearance(node) };
      this.#appearances.set(id, known);
    }
    return known;
  }

  #computeAppearance(node: FleetNode): { appearance: CellAppearance; dimmed: boolean } {
    const { mode, theme, owner } = this.#query;
    const appearance = appearanceOf(node, { mode, theme, owner, highestPrice: this.#highestPrice });
    return { appearance, dimmed: isDimmed(node, this.#query) };
  }

  #pointOf(around: HitTarget | Point | undefined): Point {
    if (around && "x" in around) return around;
    const { width, height } = this.#viewport.camera;
    const box = around && this.boxOf(around);
    const middle = box && { x: box.x + box.w / 2, y: box.y + box.h / 2 };
    const visible = middle && middle.x > 0 && middle.y > 0 && middle.x < width && middle.y < height;
    return visible ? middle : { x: width / 2, y: height / 2 };
  }

  #showsNames(): boolean {
    return detailAt(this.#viewport.camera.scale).names;
  }

  /** Limits how often the layout is recomputed while nodes join one by one. */
  #layOutSoon(now: number): void {
    if (this.#layoutTimer) return;
    const wait = this.#laidOutAt + LAYOUT_INTERVAL_MS - now;
    if (wait <= 0) this.#layOut();
    else this.#layoutTimer = window.setTimeout(() => this.#layOut(), wait);
  }

  #layOut(): void {
    clearTimeout(this.#layoutTimer);
    this.#layoutTimer = 0;
    this.#laidOutAt = performance.now();
    const { width, height } = this.#viewport.camera;
    if (!width || !height) return;
    const rows = [...this.#allocations.nodes.values()].map((node) => node.row);
    this.#highestPrice = Math.max(0.01, ...rows.map((row) => row.price ?? 0));
    this.#space = { width, height };
    this.layout = layOutFleet(
      rows.filter((row) => isShown(row, this.#query)),
      this.#space,
    );
    this.#appearances.clear();
    this.#viewportChanged();
  }

  #viewportChanged(): void {
    this.#viewport.place(this.layout);
    this.onMove();
    this.#paintAll();
  }

  #paintAll(): void {
    this.#repaintAll = true;
    this.#requestFrame();
  }

  #requestFrame(): void {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#paint();
    });
  }

  #paint(): void {
    const began = performance.now();
    if (this.#repaintAll) {
      this.#painter.paintAll(this, this.#viewport.camera);
    } else {
      for (const id of this.#fresh.keys()) this.#dirty.add(id);
      this.#painter.paintTiles(this, this.#viewport.camera, this.#dirtyTiles());
    }
    this.#repaintAll = false;
    this.#dirty.clear();
    const now = performance.now();
    for (const [id, since] of this.#fresh) {
      if (now - since < FRESH_MS) continue;
      this.#fresh.delete(id);
      this.#dirty.add(id);
    }
    this.#recordFrame(now - began);
    if (this.#fresh.size > 0 || this.#dirty.size > 0) this.#requestFrame();
  }

  *#dirtyTiles(): Iterable<NodeTile> {
    for (const id of this.#dirty) {
      const tile = this.layout.byId.get(id);
      if (tile) yield tile;
    }
  }

  #recordFrame(took: number): void {
    this.frames.painted++;
    if (took > 16) this.frames.slow++;
    this.frames.longest = Math.max(this.frames.longest, took);
  }
}
