/** The words on nodes and GPUs that are near enough to read. */
import { HEADER, TILE_PAD, type Tile } from "./cabinets";
import { toPixels, type Camera, type Pixels } from "./camera";
import type { Look, Segment } from "./colouring";
import { FONT, shortened } from "./scenery";
import type { Skin } from "./skin";
import type { State } from "./state";

const STATE_SIGN: Record<State, string> = {
  healthy: "", lost: "✕", "not ready": "▲", cordoned: "⊘", unknown: "?",
};

/** A node's name, and a sign if it is not well. */
export function paintName(pen: CanvasRenderingContext2D, camera: Camera, skin: Skin, tile: Tile, look: Look): void {
  const size = Math.min(0.62 * HEADER * camera.scale, 15) * camera.ratio;
  const sign = STATE_SIGN[look.state];
  const box = toPixels(camera, {
    x: tile.x + TILE_PAD + 0.6, y: tile.y, w: tile.w - 2 * TILE_PAD - 1, h: HEADER,
  });
  const middle = box.y + box.h / 2 + size * 0.06;
  pen.font = `500 ${size}px ${FONT}`;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.fillStyle = skin.text;
  pen.fillText(shortened(tile.id, box.w - (sign ? size : 0), size), box.x, middle);
  if (!sign) return;
  pen.textAlign = "right";
  pen.fillStyle = skin.states[look.state];
  pen.fillText(sign, box.x + box.w, middle);
}

/** A GPU's number in its middle. */
export function paintNumber(
  pen: CanvasRenderingContext2D, camera: Camera, skin: Skin, gpu: number, box: Pixels, cell: readonly Segment[],
): void {
  pen.font = `600 ${letters(camera)}px ${FONT}`;
  pen.textBaseline = "middle";
  pen.textAlign = "center";
  pen.fillStyle = inkAt(cell, 0.5, skin);
  pen.fillText(String(gpu), box.x + box.w / 2, box.y + box.h / 2);
}

/** A GPU's number at its top, and the names of its holders on their segments. */
export function paintHolders(
  pen: CanvasRenderingContext2D, camera: Camera, skin: Skin, gpu: number, box: Pixels, cell: readonly Segment[],
  names: readonly string[],
): void {
  const size = letters(camera);
  const line = size * 1.25;
  const left = box.x + size * 0.5;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.font = `600 ${size}px ${FONT}`;
  pen.fillStyle = inkAt(cell, 0.85, skin);
  pen.fillText(String(gpu), left, box.y + size * 0.95);
  pen.font = `500 ${size * 0.92}px ${FONT}`;
  let below = 0;
  let free = 0;
  names.forEach((name, at) => {
    const bottom = Math.max(free, below * box.h);
    below += cell[at]?.share ?? 0;
    if (bottom + 2 * line > box.h) return;
    free = bottom + line;
    pen.fillStyle = inkAt(cell, (bottom + line / 2) / box.h, skin);
    pen.fillText(shortened(name, box.w - size * 0.8, size * 0.92, "start"), left, box.y + box.h - bottom - line * 0.6);
  });
}

function letters(camera: Camera): number {
  return Math.min(12, 3.6 * camera.scale) * camera.ratio;
}

/** The colour of text at a height (0 to 1) of a cell, by what it stands on. */
function inkAt(cell: readonly Segment[], height: number, skin: Skin): string {
  let top = 0;
  for (const segment of cell) {
    top += segment.share;
    if (height <= top) return segment.texture || segment.pale ? skin.text : skin.onCell;
  }
  return cell.length > 0 ? skin.text : skin.faint;
}
