/** Patterns for canvas fills, made once per colour and pixel ratio. */
import type { Texture } from "./skin";

export class Textures {
  readonly #context: CanvasRenderingContext2D;
  #ratio = 1;
  #made = new Map<string, CanvasPattern>();
  #anchor = new DOMMatrix();

  constructor(context: CanvasRenderingContext2D) {
    this.#context = context;
  }

  /** Ties patterns to the map, so that they move with it. */
  anchorTo(x: number, y: number, ratio: number): void {
    if (ratio !== this.#ratio) {
      this.#made.clear();
      this.#ratio = ratio;
    }
    const period = this.#period();
    this.#anchor = new DOMMatrix([1, 0, 0, 1, -(Math.round(x) % period), -(Math.round(y) % period)]);
    for (const pattern of this.#made.values()) pattern.setTransform(this.#anchor);
  }

  fill(colour: string, texture: Texture | undefined): string | CanvasPattern {
    if (!texture) return colour;
    const key = texture + colour;
    let pattern = this.#made.get(key);
    if (!pattern) {
      pattern = this.#make(colour, texture);
      pattern.setTransform(this.#anchor);
      this.#made.set(key, pattern);
    }
    return pattern;
  }

  #period(): number {
    return Math.round(6 * this.#ratio);
  }

  #make(colour: string, texture: Texture): CanvasPattern {
    const size = this.#period();
    const stamp = document.createElement("canvas");
    stamp.width = stamp.height = size;
    const pen = stamp.getContext("2d");
    if (!pen) throw new Error("this browser cannot draw on a canvas");
    pen.fillStyle = pen.strokeStyle = colour;
    pen.globalAlpha = texture === "cross" ? 0.45 : 0.22;
    pen.fillRect(0, 0, size, size);
    pen.globalAlpha = texture === "hatch" ? 0.7 : 1;
    pen.lineWidth = size / 4.5;
    draw(pen, texture, size);
    const pattern = this.#context.createPattern(stamp, "repeat");
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

/** Diagonal lines that go on in the neighbouring stamps; `side` 1 rises, -1 falls. */
function slant(pen: CanvasRenderingContext2D, size: number, side: 1 | -1): void {
  for (const shift of [-size, 0, size]) {
    pen.moveTo(shift, side > 0 ? size : 0);
    pen.lineTo(shift + size, side > 0 ? 0 : size);
  }
  pen.stroke();
}
