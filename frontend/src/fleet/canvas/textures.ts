/** Patterns for canvas fills, cached per colour and pixel ratio. */
import type { Texture } from "../../nodes/colour-theme";

export class Textures {
  readonly #context: CanvasRenderingContext2D;
  #ratio = 1;
  #cache = new Map<string, CanvasPattern>();
  #anchor = new DOMMatrix();

  constructor(context: CanvasRenderingContext2D) {
    this.#context = context;
  }

  /** Anchors patterns to the map, so that they scroll with it. */
  anchorTo(x: number, y: number, ratio: number): void {
    if (ratio !== this.#ratio) {
      this.#cache.clear();
      this.#ratio = ratio;
    }
    const period = this.#period();
    this.#anchor = new DOMMatrix([1, 0, 0, 1, -(Math.round(x) % period), -(Math.round(y) % period)]);
    for (const pattern of this.#cache.values()) pattern.setTransform(this.#anchor);
  }

  fill(colour: string, texture: Texture | undefined): string | CanvasPattern {
    if (!texture) return colour;
    const key = texture + colour;
    let pattern = this.#cache.get(key);
    if (!pattern) {
      pattern = this.#build(colour, texture);
      pattern.setTransform(this.#anchor);
      this.#cache.set(key, pattern);
    }
    return pattern;
  }

  #period(): number {
    return Math.round(6 * this.#ratio);
  }

  #build(colour: string, texture: Texture): CanvasPattern {
    const size = this.#period();
    const tile = document.createElement("canvas");
    tile.width = tile.height = size;
    const pen = tile.getContext("2d");
    if (!pen) throw new Error("this browser cannot draw on a canvas");
    pen.fillStyle = pen.strokeStyle = colour;
    pen.globalAlpha = texture === "cross" ? 0.45 : 0.22;
    pen.fillRect(0, 0, size, size);
    pen.globalAlpha = texture === "hatch" ? 0.7 : 1;
    pen.lineWidth = size / 4.5;
    draw(pen, texture, size);
    const pattern = this.#context.createPattern(tile, "repeat");
    if (!pattern) throw new Error("this browser cannot repeat a pattern");
    return pattern;
  }
}

function draw(pen: CanvasRenderingContext2D, texture: Texture, size: number): void {
  pen.beginPath();
  switch (texture) {
    case "cross":
      slant(pen, size, -1);
      slant(pen, size, 1);
      break;
    case "hatch":
      slant(pen, size, 1);
      break;
    case "bars":
      pen.fillRect(0, 0, size, size / 2);
      break;
    case "dots":
      pen.arc(size / 2, size / 2, size / 3.4, 0, 2 * Math.PI);
      pen.fill();
      break;
  }
}

/** Diagonal lines that continue in the adjacent tiles; `side` 1 rises, -1 falls. */
function slant(pen: CanvasRenderingContext2D, size: number, side: 1 | -1): void {
  for (const shift of [-size, 0, size]) {
    pen.moveTo(shift, side > 0 ? size : 0);
    pen.lineTo(shift + size, side > 0 ? 0 : size);
  }
  pen.stroke();
}
