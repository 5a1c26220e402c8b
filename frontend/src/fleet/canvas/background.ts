/** Paints what surrounds the nodes: zones, blocks and racks, with their names. */

import type { ColourTheme } from "../../nodes/colour-theme";
import { type Area, CAPTION_HEIGHTS, type Layout, type Rack } from "../layout/layout";
import { type Camera, inView, toPixels } from "./camera";

export const FONT = 'ui-sans-serif, system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif';

/** Paints all zones, blocks and racks within the viewport. */
export function paintBackground(
  pen: CanvasRenderingContext2D,
  layout: Layout,
  camera: Camera,
  colours: ColourTheme,
): void {
  const { ratio } = camera;
  pen.globalAlpha = 1;
  pen.fillStyle = colours.ground;
  pen.fillRect(0, 0, Math.ceil(camera.width * ratio), Math.ceil(camera.height * ratio));
  const grown = Math.min(1.6, Math.sqrt(camera.scale / layout.scale));
  for (const zone of layout.zones) {
    if (!inView(camera, zone)) continue;
    paintPanel(pen, camera, zone, 10, colours.zone, colours.zoneEdge);
    paintTitle(pen, camera, colours, zone, 13 * Math.max(1, grown), CAPTION_HEIGHTS.zone / layout.scale);
  }
  for (const block of layout.blocks) {
    if (!block.title || !inView(camera, block)) continue;
    paintPanel(pen, camera, block, 7, colours.block);
    paintTitle(
      pen,
      camera,
      colours,
      block,
      11 * Math.max(1, grown),
      CAPTION_HEIGHTS.block / layout.scale,
      colours.faint,
    );
  }
  for (const rack of layout.racks) {
    if (inView(camera, rack)) paintRack(pen, layout, camera, colours, rack, grown);
  }
}

function paintPanel(
  pen: CanvasRenderingContext2D,
  camera: Camera,
  area: Area,
  radius: number,
  fill: string,
  edge?: string,
): void {
  const { x, y, w, h } = toPixels(camera, area);
  pen.beginPath();
  pen.roundRect(x, y, w, h, radius * camera.ratio);
  pen.fillStyle = fill;
  pen.fill();
  if (!edge) return;
  pen.strokeStyle = edge;
  pen.lineWidth = camera.ratio;
  pen.stroke();
}

function paintTitle(
  pen: CanvasRenderingContext2D,
  camera: Camera,
  colours: ColourTheme,
  area: Area,
  size: number,
  band: number,
  colour = colours.text,
): void {
  const { ratio } = camera;
  const box = toPixels(camera, area);
  const inset = size * 0.75 * ratio;
  // The name of a wide panel stays visible while the map scrolls horizontally.
  const left = Math.max(box.x, 0) + inset;
  const middle = box.y + (band * camera.scale * ratio) / 2 + ratio;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.font = `600 ${size * ratio}px ${FONT}`;
  const width = box.x + box.w - left - inset;
  const name = shortenText(area.title, width, size * ratio, "start");
  pen.fillStyle = colour;
  pen.fillText(name, left, middle);
  if (!area.note) return;
  const at = left + pen.measureText(name).width + size * 0.8 * ratio;
  pen.font = `400 ${size * 0.85 * ratio}px ${FONT}`;
  pen.fillStyle = colours.faint;
  if (at + pen.measureText(area.note).width < box.x + box.w - inset / 2) {
    pen.fillText(area.note, at, middle);
  }
}

function paintRack(
  pen: CanvasRenderingContext2D,
  layout: Layout,
  camera: Camera,
  colours: ColourTheme,
  rack: Rack,
  grown: number,
): void {
  const { ratio } = camera;
  const { x, y, w, h } = toPixels(camera, rack);
  const radius = Math.min(7, 4 * camera.scale) * ratio;
  pen.beginPath();
  pen.roundRect(x, y, w, h, radius);
  pen.fillStyle = colours.rack;
  pen.fill();
  if (rack.domain) {
    pen.fillStyle = colours.nvlinkGlow;
    pen.fill();
    pen.strokeStyle = colours.nvlink;
    pen.lineWidth = Math.max(1, Math.min(2, 1.4 * camera.scale)) * ratio;
    pen.stroke();
    paintSpine(pen, camera, colours, rack);
  }
  const top = rack.tiles[0];
  // A rack without a caption line above its nodes has no space for a name.
  if (!top || (top.y - rack.y) * layout.scale < 12) return;
  const size = 10 * Math.max(1, grown) * ratio;
  const left = x + 6 * ratio * Math.max(1, grown);
  const line = (CAPTION_HEIGHTS.rack / layout.scale) * camera.scale * ratio;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.font = `500 ${size}px ${FONT}`;
  pen.fillStyle = colours.faint;
  pen.fillText(shortenText(rack.name, w - 8 * ratio, size), left, y + line * 0.62);
  if (!rack.domain) return;
  pen.font = `600 ${size * 0.9}px ${FONT}`;
  pen.fillStyle = colours.nvlink;
  const fits = pen.measureText(rack.domain).width < w - 8 * ratio;
  pen.fillText(fits ? rack.domain : rack.domain.replace(" domain", ""), left, y + line * 1.42);
}

/** The NVLink switch of a rack: a line beside each column, connected to each node. */
function paintSpine(pen: CanvasRenderingContext2D, camera: Camera, colours: ColourTheme, rack: Rack): void {
  const scale = camera.scale * camera.ratio;
  if (scale < 0.6) return;
  const thick = Math.max(1, Math.round(0.9 * scale));
  pen.fillStyle = colours.nvlink;
  const columns = new Map<number, { top: number; bottom: number }>();
  for (const tile of rack.tiles) {
    const box = toPixels(camera, tile);
    const middle = Math.round(box.y + box.h / 2);
    const at = box.x - Math.round(3.2 * scale);
    pen.fillRect(at, middle - (thick >> 1), Math.round(3.2 * scale), thick);
    const column = columns.get(at);
    if (column) column.bottom = middle;
    else columns.set(at, { top: middle, bottom: middle });
  }
  for (const [at, { top, bottom }] of columns) {
    pen.fillRect(at, top - (thick >> 1), thick, bottom - top + thick);
  }
}

/** The text, shortened to a width: node and rack names differ at their end, workload names at their start. */
export function shortenText(text: string, width: number, size: number, keep: "start" | "end" = "end"): string {
  const letters = Math.floor(width / (size * 0.55));
  if (text.length <= letters) return text;
  if (letters < 3) return "";
  return keep === "start" ? `${text.slice(0, letters - 1)}…` : `…${text.slice(text.length - letters + 1)}`;
}
