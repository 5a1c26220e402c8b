/** Mouse, wheel, touch and keyboard input on the map. */

import type { FleetMap } from "./fleet-map";
import { type Direction, findNeighbour, type HitTarget } from "./layout/hit-test";

export interface GestureHandlers {
  hover(target: HitTarget | undefined, x: number, y: number): void;
  focus(target: HitTarget): void;
  open(target: HitTarget): void;
  focused(): HitTarget | undefined;
}

const DRAG_THRESHOLD = 5;
const ARROWS: Record<string, Direction> = {
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "up",
  ArrowDown: "down",
};

/** Attaches event listeners until the signal is aborted. */
export function attachGestures(
  map: FleetMap,
  scroller: HTMLElement,
  canvas: HTMLElement,
  handlers: GestureHandlers,
  signal: AbortSignal,
): void {
  scroller.addEventListener("scroll", () => map.scrolled(), { signal, passive: true });
  attachWheel(map, canvas, signal);
  attachPinch(map, canvas, signal);
  attachMouse(map, scroller, canvas, handlers, signal);
  canvas.addEventListener("keydown", (event) => handleKey(map, handlers, event), { signal });
}

function attachWheel(map: FleetMap, canvas: HTMLElement, signal: AbortSignal): void {
  canvas.addEventListener(
    "wheel",
    (event) => {
      // Browsers send a pinch on a touchpad as a wheel with Ctrl.
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      // A wheel notch is 100 pixels or more, a pinch a few: limit the zoom step.
      const step = Math.max(-25, Math.min(25, event.deltaY * lines));
      map.zoomBy(Math.exp(-step / 100), { x: event.offsetX, y: event.offsetY });
    },
    { signal, passive: false },
  );
}

function attachPinch(map: FleetMap, canvas: HTMLElement, signal: AbortSignal): void {
  let distance = 0;
  canvas.addEventListener("touchstart", () => (distance = 0), { signal, passive: true });
  canvas.addEventListener(
    "touchmove",
    (event) => {
      const [one, other] = event.touches;
      if (!one || !other) return;
      event.preventDefault();
      const now = Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY);
      const box = canvas.getBoundingClientRect();
      const x = (one.clientX + other.clientX) / 2 - box.left;
      const y = (one.clientY + other.clientY) / 2 - box.top;
      if (distance > 0) map.zoomBy(now / distance, { x, y });
      distance = now;
    },
    { signal, passive: false },
  );
}

function attachMouse(
  map: FleetMap,
  scroller: HTMLElement,
  canvas: HTMLElement,
  handlers: GestureHandlers,
  signal: AbortSignal,
): void {
  let drag: { x: number; y: number; left: number; top: number; moved: boolean } | undefined;
  let dragged = false;
  let last = { x: -1, y: -1 };
  const hover = (): void => handlers.hover(map.hitTest(last.x, last.y), last.x, last.y);
  canvas.addEventListener(
    "pointerdown",
    (event) => {
      if (event.pointerType !== "mouse" || event.button !== 0) return;
      drag = { x: event.clientX, y: event.clientY, left: scroller.scrollLeft, top: scroller.scrollTop, moved: false };
    },
    { signal },
  );
  canvas.addEventListener(
    "pointermove",
    (event) => {
      if (event.pointerType !== "mouse") return;
      last = { x: event.offsetX, y: event.offsetY };
      if (!drag) return hover();
      const dx = event.clientX - drag.x;
      const dy = event.clientY - drag.y;
      if (!drag.moved && Math.hypot(dx, dy) < DRAG_THRESHOLD) return;
      if (!drag.moved) canvas.setPointerCapture(event.pointerId);
      drag.moved = true;
      handlers.hover(undefined, 0, 0);
      scroller.scrollTo(drag.left - dx, drag.top - dy);
    },
    { signal },
  );
  canvas.addEventListener(
    "pointerleave",
    () => {
      last = { x: -1, y: -1 };
      handlers.hover(undefined, 0, 0);
    },
    { signal },
  );
  canvas.addEventListener(
    "pointerup",
    () => {
      dragged = drag?.moved ?? false;
      drag = undefined;
    },
    { signal },
  );
  canvas.addEventListener(
    "click",
    (event) => {
      const target = dragged ? undefined : map.hitTest(event.offsetX, event.offsetY);
      if (!target) return;
      handlers.focus(target);
      handlers.open(target);
    },
    { signal },
  );
  scroller.addEventListener("scroll", () => last.x >= 0 && !drag && hover(), { signal, passive: true });
}

function handleKey(map: FleetMap, handlers: GestureHandlers, event: KeyboardEvent): void {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const next = targetOfKey(map, handlers, event.key);
  if (!next) return;
  event.preventDefault();
  event.stopPropagation();
  if (next === true) return;
  handlers.focus(next);
  map.reveal(next);
}

/** The target that a key moves to; true if the key did something else, undefined if it is not handled. */
function targetOfKey(map: FleetMap, handlers: GestureHandlers, key: string): HitTarget | true | undefined {
  const tiles = map.layout.tiles;
  const first = tiles[0];
  const at = handlers.focused() ?? (first && { node: first.id });
  if (!at) return undefined;
  const arrow = ARROWS[key];
  if (arrow) return handlers.focused() ? findNeighbour(map.layout, at, arrow) : at;
  switch (key) {
    case "Home":
      return first && { node: first.id };
    case "End":
      return { node: tiles[tiles.length - 1]?.id ?? at.node };
    case " ":
      if (at.gpu !== undefined) return { node: at.node };
      return map.layout.byId.get(at.node)?.gpus ? { node: at.node, gpu: 0 } : at;
    case "Escape":
      return at.gpu === undefined ? undefined : { node: at.node };
    case "Enter":
      handlers.open(at);
      return true;
    case "+":
    case "=":
      map.zoomBy(1.4, handlers.focused());
      return true;
    case "-":
      map.zoomBy(1 / 1.4, handlers.focused());
      return true;
    case "0":
      map.zoomHome();
      return true;
    default:
      return undefined;
  }
}
