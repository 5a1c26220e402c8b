/** From map units to pixels of the canvas. */
import type { Box } from "./shelves";

export interface Camera {
  /** CSS pixels per map unit. */
  scale: number;
  /** What of the map is at the window's top left corner, in CSS pixels. */
  x: number;
  y: number;
  /** The window, in CSS pixels. */
  width: number;
  height: number;
  /** Device pixels per CSS pixel. */
  ratio: number;
}

/** A box in whole device pixels. */
export interface Pixels {
  x: number;
  y: number;
  w: number;
  h: number;
}

/** Edges are rounded, not sizes: neighbours keep touching and lines stay sharp. */
export function toPixels(camera: Camera, box: Box): Pixels {
  const scale = camera.scale * camera.ratio;
  const left = camera.x * camera.ratio;
  const top = camera.y * camera.ratio;
  const x = Math.round(box.x * scale - left);
  const y = Math.round(box.y * scale - top);
  return {
    x,
    y,
    w: Math.max(1, Math.round((box.x + box.w) * scale - left) - x),
    h: Math.max(1, Math.round((box.y + box.h) * scale - top) - y),
  };
}

/** As toPixels, but ending one pixel before the next box begins that is `gap` units away. */
export function toPixelsBeside(camera: Camera, box: Box, gap: number): Pixels {
  const { x, y, w, h } = toPixels(camera, { x: box.x, y: box.y, w: box.w + gap, h: box.h + gap });
  return { x, y, w: Math.max(1, w - 1), h: Math.max(1, h - 1) };
}

/** True if some of the box is in the window. */
export function inView(camera: Camera, box: Box): boolean {
  return (
    (box.x + box.w) * camera.scale > camera.x &&
    box.x * camera.scale < camera.x + camera.width &&
    (box.y + box.h) * camera.scale > camera.y &&
    box.y * camera.scale < camera.y + camera.height
  );
}

/** How much is shown at a scale: from far runs of GPUs, from near names and numbers. */
export interface Detail {
  cells: boolean;
  names: boolean;
  numbers: boolean;
  holders: boolean;
}

export function detailAt(scale: number): Detail {
  return { cells: scale >= 0.5, names: scale >= 1.2, numbers: scale >= 2.1, holders: scale >= 4.6 };
}
