/**
 * The viewport of the map: size, zoom, scroll position.
 *
 * The canvas is as large as the viewport and stays in place; an element as large as
 * the whole map scrolls behind it, so that wheel, touch, momentum and scroll bars
 * are the browser's own.
 */
import type { Camera } from "./canvas/camera";
import type { Layout } from "./layout/layout";

export interface Point {
  x: number;
  y: number;
}

export interface MapParts {
  /** Scrolls. */
  scroller: HTMLElement;
  /** An element as large as the whole map. */
  ground: HTMLElement;
  canvas: HTMLCanvasElement;
}

const MAX_SCALE = 9;

export class Viewport {
  camera: Camera = { scale: 1, x: 0, y: 0, width: 0, height: 0, ratio: 1 };
  readonly #parts: MapParts;
  #zoom = 1;

  constructor(parts: MapParts) {
    this.#parts = parts;
  }

  /** Resizes the canvas to its container; false while that has no size. */
  measure(): boolean {
    const { scroller, canvas } = this.#parts;
    const width = scroller.clientWidth;
    const height = scroller.clientHeight;
    const ratio = window.devicePixelRatio || 1;
    if (!width || !height) return false;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    this.camera = { ...this.camera, width, height, ratio };
    return true;
  }

  /** Resizes the scrolled element to the map, and reads the scroll position. */
  place(layout: Layout): void {
    const { ground, scroller } = this.#parts;
    const { width, height, ratio } = this.camera;
    const scale = layout.scale * this.#zoom;
    const wide = layout.w * scale;
    const high = layout.h * scale;
    ground.style.width = `${wide > width + 1 ? Math.ceil(wide) : width}px`;
    ground.style.height = `${high > height + 1 ? Math.ceil(high) : height}px`;
    this.camera = {
      scale,
      width,
      height,
      ratio,
      x: wide > width + 1 ? scroller.scrollLeft : (wide - width) / 2,
      y: high > height + 1 ? scroller.scrollTop : 0,
    };
  }

  /** Zooms by a factor, keeping a point of the viewport in place. */
  zoom(layout: Layout, factor: number, { x, y }: Point): void {
    const before = this.camera;
    const at = { x: (before.x + x) / before.scale, y: (before.y + y) / before.scale };
    const minZoom = Math.min(1, before.height / (layout.h * layout.scale));
    this.#zoom = Math.min(MAX_SCALE / layout.scale, Math.max(minZoom, this.#zoom * factor));
    this.place(layout);
    this.#parts.scroller.scrollTo(at.x * this.camera.scale - x, at.y * this.camera.scale - y);
    this.place(layout);
  }

  /** Returns to the initial zoom. */
  home(layout: Layout): void {
    this.#zoom = 1;
    this.#parts.scroller.scrollTo(0, 0);
    this.place(layout);
  }

  scrollBy(dx: number, dy: number): void {
    if (dx || dy) this.#parts.scroller.scrollBy(dx, dy);
  }
}
