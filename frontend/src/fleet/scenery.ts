/** Paints what nodes stand in: zones, blocks and cabinets, with their names. */
import { inView, toPixels, type Camera } from "./camera";
import { LINES, type Area, type Layout, type Rack } from "./layout";
import type { Skin } from "./skin";

export const FONT = 'ui-sans-serif, system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif';

/** Paints all scenery that is in the window. */
export function paintScenery(
  pen: CanvasRenderingContext2D, layout: Layout, camera: Camera, skin: Skin,
): void {
  const { ratio } = camera;
  pen.globalAlpha = 1;
  pen.fillStyle = skin.ground;
  pen.fillRect(0, 0, Math.ceil(camera.width * ratio), Math.ceil(camera.height * ratio));
  const grown = Math.min(1.6, Math.sqrt(camera.scale / layout.scale));
  for (const zone of layout.zones) {
    if (!inView(camera, zone)) continue;
    panel(pen, camera, zone, 10, skin.zone, skin.zoneEdge);
    title(pen, camera, skin, zone, 13 * Math.max(1, grown), LINES.zone / layout.scale);
  }
  for (const block of layout.blocks) {
    if (!block.title || !inView(camera, block)) continue;
    panel(pen, camera, block, 7, skin.block);
    title(pen, camera, skin, block, 11 * Math.max(1, grown), LINES.block / layout.scale, skin.faint);
  }
  for (const rack of layout.racks) {
    if (inView(camera, rack)) cabinet(pen, layout, camera, skin, rack, grown);
  }
}

function panel(
  pen: CanvasRenderingContext2D, camera: Camera, area: Area, radius: number, fill: string, edge?: string,
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

function title(
  pen: CanvasRenderingContext2D, camera: Camera, skin: Skin, area: Area, size: number, band: number,
  colour = skin.text,
): void {
  const { ratio } = camera;
  const box = toPixels(camera, area);
  const inset = size * 0.75 * ratio;
  // A long panel keeps its name in sight while the map is moved sideways.
  const left = Math.max(box.x, 0) + inset;
  const middle = box.y + (band * camera.scale * ratio) / 2 + ratio;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.font = `600 ${size * ratio}px ${FONT}`;
  const room = box.x + box.w - left - inset;
  const name = shortened(area.title, room, size * ratio, "start");
  pen.fillStyle = colour;
  pen.fillText(name, left, middle);
  if (!area.note) return;
  const at = left + pen.measureText(name).width + size * 0.8 * ratio;
  pen.font = `400 ${size * 0.85 * ratio}px ${FONT}`;
  pen.fillStyle = skin.faint;
  if (at + pen.measureText(area.note).width < box.x + box.w - inset / 2) {
    pen.fillText(area.note, at, middle);
  }
}

function cabinet(
  pen: CanvasRenderingContext2D, layout: Layout, camera: Camera, skin: Skin, rack: Rack, grown: number,
): void {
  const { ratio } = camera;
  const { x, y, w, h } = toPixels(camera, rack);
  const radius = Math.min(7, 4 * camera.scale) * ratio;
  pen.beginPath();
  pen.roundRect(x, y, w, h, radius);
  pen.fillStyle = skin.rack;
  pen.fill();
  if (rack.domain) {
    pen.fillStyle = skin.nvlinkGlow;
    pen.fill();
    pen.strokeStyle = skin.nvlink;
    pen.lineWidth = Math.max(1, Math.min(2, 1.4 * camera.scale)) * ratio;
    pen.stroke();
    spine(pen, camera, skin, rack);
  }
  const top = rack.tiles[0];
  // Without a caption above its trays the cabinet has no room for a name.
  if (!top || (top.y - rack.y) * layout.scale < 12) return;
  const size = 10 * Math.max(1, grown) * ratio;
  const left = x + 6 * ratio * Math.max(1, grown);
  const line = (LINES.rack / layout.scale) * camera.scale * ratio;
  pen.textBaseline = "middle";
  pen.textAlign = "left";
  pen.font = `500 ${size}px ${FONT}`;
  pen.fillStyle = skin.faint;
  pen.fillText(shortened(rack.name, w - 8 * ratio, size), left, y + line * 0.62);
  if (!rack.domain) return;
  pen.font = `600 ${size * 0.9}px ${FONT}`;
  pen.fillStyle = skin.nvlink;
  const fits = pen.measureText(rack.domain).width < w - 8 * ratio;
  pen.fillText(fits ? rack.domain : rack.domain.replace(" domain", ""), left, y + line * 1.42);
}

/** The NVLink switch that joins the trays: a line beside each column, with a tap to each tray. */
function spine(pen: CanvasRenderingContext2D, camera: Camera, skin: Skin, rack: Rack): void {
  const scale = camera.scale * camera.ratio;
  if (scale < 0.6) return;
  const thick = Math.max(1, Math.round(0.9 * scale));
  pen.fillStyle = skin.nvlink;
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

/** The text, or as much of it as there is room for: nodes and racks differ at their end, workloads at their start. */
export function shortened(text: string, room: number, size: number, keep: "start" | "end" = "end"): string {
  const letters = Math.floor(room / (size * 0.55));
  if (text.length <= letters) return text;
  if (letters < 3) return "";
  return keep === "start" ? text.slice(0, letters - 1) + "…" : "…" + text.slice(text.length - letters + 1);
}
