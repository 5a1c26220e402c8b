/** Conversion of map units to pixels of the canvas. */
import type { Box } from "../layout/shelf-packing";

export interface Camera {
  /** CSS pixels per map unit. */
  scale: number;
  /** Scroll offset of the viewport's top left corner, in CSS pixels. */
  x: number;
  y: number;
  /** Size of the viewport, in CSS pixels. */
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

/** Rounds edges, not sizes, so that adjacent boxes touch and lines are sharp. */
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

/** As toPixels, but ends one pixel before the next box, which is `gap` units away. */
export function toPixelsBeside(camera: Camera, box: Box, gap: number): Pixels {
  const { x, y, w, h } = toPixels(camera, { x: box.x, y: box.y, w: box.w + gap, h: box.h + gap });
  return { x, y, w: Math.max(1, w - 1), h: Math.max(1, h - 1) };
}

/** True if part of the box is within the viewport. */
export function inView(camera: Camera, box: Box): boolean {
  return (
    (box.x + box.w) * camera.scale > camera.x &&
    box.x * camera.scale < camera.x + camera.width &&
    (box.y + box.h) * camera.scale > camera.y &&
    box.y * camera.scale < camera.y + camera.height
  );
}

/** Level of detail at a scale: runs of GPUs when zoomed out, names and numbers when zoomed in. */
export interface Detail {
  cells: boolean;
  names: boolean;
  numbers: boolean;
  holders: boolean;
}

export function detailAt(scale: number): Detail {
  return { cells: scale >= 0.5, names: scale >= 1.2, numbers: scale >= 2.1, holders: scale >= 4.6 };
}
