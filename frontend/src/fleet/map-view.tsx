/** The map with its focus rings, tooltip, zoom buttons, and text for screen readers. */
import { effect, useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { theme } from "../app/theme";
import { allocations, refreshTick, subscribe } from "../nodes/live-allocations";
import { viewQuery } from "../nodes/view-query";
import { FleetMap } from "./fleet-map";
import { attachGestures } from "./gestures";
import type { HitTarget } from "./layout/hit-test";
import type { Box } from "./layout/shelf-packing";
import { RackSummary } from "./rack-summary";
import { describeTarget } from "./target-text";
import { exposeForTests } from "./test-hook";
import { Tooltip } from "./tooltip";

interface HoverState {
  target: HitTarget;
  x: number;
  y: number;
}

export function MapView({ selected, onOpen }: { selected: string; onOpen: (node: string) => void }): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const ground = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const map = useRef<FleetMap | undefined>(undefined);
  const open = useRef(onOpen);
  open.current = onOpen;
  const holdLayout = useRef(false);
  holdLayout.current = selected !== "";
  const hoverState = useSignal<HoverState | undefined>(undefined);
  const focused = useSignal<HitTarget | undefined>(undefined);
  const moveCount = useSignal(0);

  useEffect(() => {
    if (!scroller.current || !ground.current || !canvas.current) return;
    const parts = { scroller: scroller.current, ground: ground.current, canvas: canvas.current };
    const fleet = new FleetMap(parts, allocations, viewQuery.peek());
    map.current = fleet;
    fleet.onMove = () => moveCount.value++;
    const stop = new AbortController();
    attachGestures(
      fleet,
      parts.scroller,
      parts.canvas,
      {
        hover: (target, x, y) => (hoverState.value = target && { target, x, y }),
        focus: (target) => (focused.value = target),
        open: (target) => open.current(target.node),
        focused: () => focused.value,
      },
      stop.signal,
    );
    const sizes = new ResizeObserver(() => {
      fleet.resize(holdLayout.current);
      if (holdLayout.current && focused.peek()) fleet.reveal(focused.peek() as HitTarget);
    });
    sizes.observe(parts.scroller);
    const hide = exposeForTests(fleet, parts.canvas);
    const unsubscribe = subscribe((changes) => fleet.applyChanges(changes));
    const stopEffect = effect(() => fleet.show(viewQuery.value));
    return () => {
      stop.abort();
      sizes.disconnect();
      hide();
      unsubscribe();
      stopEffect();
      fleet.close();
    };
  }, []);
  useEffect(() => {
    if (!selected) return;
    if (focused.peek()?.node !== selected) focused.value = { node: selected };
    map.current?.reveal({ node: selected });
  }, [selected]);

  moveCount.value;
  refreshTick.value;
  const ring = focused.value && map.current?.boxOf(focused.value);
  const node = focused.value && allocations.nodes.get(focused.value.node);
  const hover = hoverState.value;
  const hovered = hover && map.current?.boxOf(hover.target);
  return (
    <div class="map">
      <div class="map-scroller" ref={scroller} data-theme={theme.value}>
        <div class="map-ground" ref={ground}>
          <div class="map-window">
            <canvas
              ref={canvas}
              tabIndex={0}
              data-arrows
              role="application"
              aria-label="Map of the fleet"
              aria-describedby="map-keys"
              class={hover ? "pointing" : undefined}
            />
            {hovered && <Ring box={hovered} kind="hovered" />}
            {ring && <Ring box={ring} kind={focused.value?.node === selected ? "focused selected" : "focused"} />}
          </div>
        </div>
      </div>
      {hover && hovered && <Tooltip target={hover.target} x={hover.x} y={hover.y} />}
      <div class="map-buttons" role="group" aria-label="Zoom">
        <button type="button" aria-label="Zoom in" title="Zoom in (+)" onClick={() => map.current?.zoomBy(1.4)}>
          +
        </button>
        <button type="button" aria-label="Zoom out" title="Zoom out (−)" onClick={() => map.current?.zoomBy(1 / 1.4)}>
          −
        </button>
        <button
          type="button"
          aria-label="Show everything"
          title="Show everything (0)"
          onClick={() => map.current?.zoomHome()}
        >
          0
        </button>
      </div>
      <p class="visually-hidden" id="map-keys">
        Arrow keys move between nodes, Space enters a node's GPUs and leaves them, Enter opens, Home and End move to the
        first and last node, plus, minus and 0 zoom. The Nodes page has the same as a table.
      </p>
      <p class="visually-hidden" role="status">
        {focused.value && node ? describeTarget(node, focused.value) : ""}
      </p>
      <RackSummary />
    </div>
  );
}

function Ring({ box, kind }: { box: Box; kind: string }): JSX.Element {
  const style = {
    transform: `translate(${box.x - 2}px, ${box.y - 2}px)`,
    width: `${box.w + 4}px`,
    height: `${box.h + 4}px`,
  };
  return <span class={`map-ring ${kind}`} style={style} aria-hidden="true" />;
}
