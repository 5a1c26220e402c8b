/** Labels on nodes and GPUs, painted when zoomed in far enough. */

import type { CellAppearance, Segment } from "../../nodes/cell-colours";
import type { ColourTheme } from "../../nodes/colour-theme";
import type { State } from "../../nodes/state";
import { HEADER, type NodeTile, TILE_PAD } from "../layout/racks";
import { FONT, shortenText } from "./background";
import { type Camera, type Pixels, toPixels } from "./camera";

const STATE_SIGN: Record<State, string> = {
  healthy: "",
  lost: "✕",
  "not ready": "▲",
  cordoned: "⊘",
  unknown: "?",
};

/** A node's name, and a sign if it is not healthy. */
export function paintName(
  pen: CanvasRenderingContext2D,
  camera: Camera,
  colours: ColourTheme,
  tile: NodeTile,
  appearance: CellAppearance,
): void {
  const size = Math.min(0.62 * HEADER * camera.scale, 15) * camera.ratio;
  const sign = STATE_SIGN[appearance.state];
  const box = toPixels(camera, {
    x: tile.x + TILE_PAD + 0.6,
    y: tile.y,
    w: tile.w - 2 * TILE_PAD - 1,
    h: HEADER,
  });
  const middle = box.y + box.h / 2 + size * 0.06;
  pen.font = `500 ${size}px ${FONT}`;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.fillStyle = colours.text;
  pen.fillText(shortenText(tile.id, box.w - (sign ? size : 0), size), box.x, middle);
  if (!sign) return;
  pen.textAlign = "right";
  pen.fillStyle = colours.states[appearance.state];
  pen.fillText(sign, box.x + box.w, middle);
}

/** A GPU's index, centred. */
export function paintNumber(
  pen: CanvasRenderingContext2D,
  camera: Camera,
  colours: ColourTheme,
  gpu: number,
  box: Pixels,
  cell: readonly Segment[],
): void {
  pen.font = `600 ${fontSize(camera)}px ${FONT}`;
  pen.textBaseline = "middle";
  pen.textAlign = "center";
  pen.fillStyle = textColourAt(cell, 0.5, colours);
  pen.fillText(String(gpu), box.x + box.w / 2, box.y + box.h / 2);
}

/** A GPU's index at its top, and the names of its holders on their segments. */
export function paintHolders(
  pen: CanvasRenderingContext2D,
  camera: Camera,
  colours: ColourTheme,
  gpu: number,
  box: Pixels,
  cell: readonly Segment[],
  names: readonly string[],
): void {
  const size = fontSize(camera);
  const line = size * 1.25;
  const left = box.x + size * 0.5;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.font = `600 ${size}px ${FONT}`;
  pen.fillStyle = textColourAt(cell, 0.85, colours);
  pen.fillText(String(gpu), left, box.y + size * 0.95);
  pen.font = `500 ${size * 0.92}px ${FONT}`;
  let below = 0;
  let free = 0;
  names.forEach((name, at) => {
    const bottom = Math.max(free, below * box.h);
    below += cell[at]?.share ?? 0;
    if (bottom + 2 * line > box.h) return;
    free = bottom + line;
    pen.fillStyle = textColourAt(cell, (bottom + line / 2) / box.h, colours);
    pen.fillText(
      shortenText(name, box.w - size * 0.8, size * 0.92, "start"),
      left,
      box.y + box.h - bottom - line * 0.6,
    );
  });
}

function fontSize(camera: Camera): number {
  return Math.min(12, 3.6 * camera.scale) * camera.ratio;
}

/** The text colour at a height (0 to 1) of a cell, by the segment behind it. */
function textColourAt(cell: readonly Segment[], height: number, colours: ColourTheme): string {
  let top = 0;
  for (const segment of cell) {
    top += segment.share;
    if (height <= top) return segment.texture || segment.pale ? colours.text : colours.onCell;
  }
  return cell.length > 0 ? colours.text : colours.faint;
}
