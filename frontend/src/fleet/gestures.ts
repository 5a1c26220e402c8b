/** Mouse, wheel, touch and keyboard on the map. */
import { neighbour, type Direction, type Spot } from "./hit";
import type { FleetMap } from "./map";

export interface Answers {
  hover(spot: Spot | undefined, x: number, y: number): void;
  focus(spot: Spot): void;
  open(spot: Spot): void;
  focused(): Spot | undefined;
}

const DRAG_FROM = 5;
const ARROWS: Record<string, Direction> = {
  ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down",
};

/** Listens until the signal is aborted. */
export function listen(map: FleetMap, scroller: HTMLElement, canvas: HTMLElement, answers: Answers, signal: AbortSignal): void {
  scroller.addEventListener("scroll", () => map.scrolled(), { signal, passive: true });
  wheel(map, canvas, signal);
  pinch(map, canvas, signal);
  mouse(map, scroller, canvas, answers, signal);
  canvas.addEventListener("keydown", (event) => keys(map, answers, event), { signal });
}

function wheel(map: FleetMap, canvas: HTMLElement, signal: AbortSignal): void {
  canvas.addEventListener(
    "wheel",
    (event) => {
      // Browsers send a pinch on a touchpad as a wheel with Ctrl.
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      // A notch of a wheel is 100 pixels or more, a pinch a few: neither may jump.
      const step = Math.max(-25, Math.min(25, event.deltaY * lines));
      map.zoomBy(Math.exp(-step / 100), { x: event.offsetX, y: event.offsetY });
    },
    { signal, passive: false },
  );
}

function pinch(map: FleetMap, canvas: HTMLElement, signal: AbortSignal): void {
  let apart = 0;
  canvas.addEventListener("touchstart", () => (apart = 0), { signal, passive: true });
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
      if (apart > 0) map.zoomBy(now / apart, { x, y });
      apart = now;
    },
    { signal, passive: false },
  );
}

function mouse(map: FleetMap, scroller: HTMLElement, canvas: HTMLElement, answers: Answers, signal: AbortSignal): void {
  let drag: { x: number; y: number; left: number; top: number; moved: boolean } | undefined;
  let dragged = false;
  let last = { x: -1, y: -1 };
  const hover = (): void => answers.hover(map.spotAt(last.x, last.y), last.x, last.y);
  canvas.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" || event.button !== 0) return;
    drag = { x: event.clientX, y: event.clientY, left: scroller.scrollLeft, top: scroller.scrollTop, moved: false };
  }, { signal });
  canvas.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "mouse") return;
    last = { x: event.offsetX, y: event.offsetY };
    if (!drag) return hover();
    const dx = event.clientX - drag.x;
    const dy = event.clientY - drag.y;
    if (!drag.moved && Math.hypot(dx, dy) < DRAG_FROM) return;
    if (!drag.moved) canvas.setPointerCapture(event.pointerId);
    drag.moved = true;
    answers.hover(undefined, 0, 0);
    scroller.scrollTo(drag.left - dx, drag.top - dy);
  }, { signal });
  canvas.addEventListener("pointerleave", () => {
    last = { x: -1, y: -1 };
    answers.hover(undefined, 0, 0);
  }, { signal });
  canvas.addEventListener("pointerup", () => {
    dragged = drag?.moved ?? false;
    drag = undefined;
  }, { signal });
  canvas.addEventListener("click", (event) => {
    const spot = dragged ? undefined : map.spotAt(event.offsetX, event.offsetY);
    if (!spot) return;
    answers.focus(spot);
    answers.open(spot);
  }, { signal });
  scroller.addEventListener("scroll", () => last.x >= 0 && !drag && hover(), { signal, passive: true });
}

function keys(map: FleetMap, answers: Answers, event: KeyboardEvent): void {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const next = keyed(map, answers, event.key);
  if (!next) return;
  event.preventDefault();
  event.stopPropagation();
  if (next === true) return;
  answers.focus(next);
  map.reveal(next);
}

/** Where a key leads; true if it did something else, undefined if it is not one of ours. */
function keyed(map: FleetMap, answers: Answers, key: string): Spot | true | undefined {
  const tiles = map.layout.tiles;
  const first = tiles[0];
  const at = answers.focused() ?? (first && { node: first.id });
  if (!at) return undefined;
  const arrow = ARROWS[key];
  if (arrow) return answers.focused() ? neighbour(map.layout, at, arrow) : at;
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
      answers.open(at);
      return true;
    case "+":
    case "=":
      map.zoomBy(1.4, answers.focused());
      return true;
    case "-":
      map.zoomBy(1 / 1.4, answers.focused());
      return true;
    case "0":
      map.zoomHome();
      return true;
    default:
      return undefined;
  }
}
