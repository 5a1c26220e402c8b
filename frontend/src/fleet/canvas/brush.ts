/** Drawing primitives of the map, in whole device pixels. */

import type { Segment } from "../../nodes/cell-colours";
import type { Pixels } from "./camera";
import { Textures } from "./textures";

export class Brush {
  readonly pen: CanvasRenderingContext2D;
  readonly textures: Textures;

  constructor(canvas: HTMLCanvasElement) {
    const pen = canvas.getContext("2d", { alpha: false });
    if (!pen) throw new Error("this browser cannot draw on a canvas");
    this.pen = pen;
    this.textures = new Textures(pen);
  }

  rect(fill: string | CanvasPattern, { x, y, w, h }: Pixels): void {
    this.pen.fillStyle = fill;
    this.pen.fillRect(x, y, w, h);
  }

  /** A rectangle without its corner pixels: appears rounded, and is far cheaper than a path. */
  soft(fill: string | CanvasPattern, { x, y, w, h }: Pixels): void {
    const { pen } = this;
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

  round(fill: string, { x, y, w, h }: Pixels, radius: number): void {
    const { pen } = this;
    pen.fillStyle = fill;
    if (radius < 2) {
      pen.fillRect(x, y, w, h);
      return;
    }
    pen.beginPath();
    pen.roundRect(x, y, w, h, radius);
    pen.fill();
  }

  /** The segments of a cell, from the bottom up. */
  stack(box: Pixels, cell: readonly Segment[], soft: boolean): void {
    let below = 0;
    for (const segment of cell) {
      const fill = this.textures.fill(segment.colour, segment.texture);
      const bottom = box.y + box.h - Math.round(below * box.h);
      below = Math.min(1, below + segment.share);
      const top = box.y + box.h - Math.round(below * box.h);
      const part = { x: box.x, y: top, w: box.w, h: Math.max(1, bottom - top) };
      if (soft) this.soft(fill, part);
      else this.rect(fill, part);
    }
  }

  /** A lighter line along the top of a cell's filled part. */
  shine(box: Pixels, cell: readonly Segment[], ratio: number): void {
    const filled = Math.min(
      1,
      cell.reduce((sum, segment) => sum + segment.share, 0),
    );
    const y = box.y + box.h - Math.round(filled * box.h);
    this.rect("rgba(255, 255, 255, 0.22)", { x: box.x + 1, y, w: box.w - 2, h: Math.round(ratio) });
  }

  cross(colour: string, box: Pixels, thick: number): void {
    const { pen } = this;
    pen.strokeStyle = colour;
    pen.lineWidth = Math.max(1, thick * 1.1);
    pen.beginPath();
    pen.moveTo(box.x, box.y);
    pen.lineTo(box.x + box.w, box.y + box.h);
    pen.moveTo(box.x + box.w, box.y);
    pen.lineTo(box.x, box.y + box.h);
    pen.stroke();
  }
}
