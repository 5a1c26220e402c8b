/** Shelf packing: places boxes left to right and then down, keeping their order. */

export interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface ShelfOptions {
  width: number;
  gap: number;
  /** Widens the boxes of a shelf that is nearly full, so that panels align on the right. */
  justify: boolean;
}

/** A last shelf emptier than this is left as it is, like the last line of a paragraph. */
const NEARLY_FULL = 0.6;

/**
 * Sets x and y of each box; boxes on one shelf get the shelf's height.
 * Returns the total size.
 */
export function packShelves(boxes: Box[], { width, gap, justify }: ShelfOptions): { w: number; h: number } {
  let y = 0;
  let widest = 0;
  for (let start = 0; start < boxes.length; ) {
    let x = 0;
    let height = 0;
    let end = start;
    for (; end < boxes.length; end++) {
      const box = boxes[end] as Box;
      if (end > start && x + box.w > width + 1e-6) break;
      box.x = x;
      box.y = y;
      x += box.w + gap;
      height = Math.max(height, box.h);
    }
    const shelf = boxes.slice(start, end);
    let used = x - gap;
    if (justify && used < width && (end < boxes.length || used > NEARLY_FULL * width)) {
      widen(shelf, width - used);
      used = width;
    }
    for (const box of shelf) box.h = height;
    widest = Math.max(widest, used);
    y += height + gap;
    start = end;
  }
  return { w: widest, h: boxes.length ? y - gap : 0 };
}

function widen(shelf: Box[], left: number): void {
  const each = left / shelf.length;
  shelf.forEach((box, at) => {
    box.x += at * each;
    box.w += each;
  });
}
