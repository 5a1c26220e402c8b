/** The map with its rings, tooltip, buttons, and what it says to those who do not see it. */
import { effect, useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { theme } from "../theme";
import { beat, follow, holdings } from "./follow";
import { listen } from "./gestures";
import type { Spot } from "./hit";
import { expose } from "./hook";
import { FleetMap } from "./map";
import { RackSummary } from "./racksummary";
import type { Box } from "./shelves";
import { Tooltip } from "./tooltip";
import { view } from "./view";
import { describe } from "./words";

interface Pointed {
  spot: Spot;
  x: number;
  y: number;
}

export function MapBox({ selected, onOpen }: { selected: string; onOpen: (node: string) => void }): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const ground = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const map = useRef<FleetMap | undefined>(undefined);
  const open = useRef(onOpen);
  open.current = onOpen;
  const holding = useRef(false);
  holding.current = selected !== "";
  const pointed = useSignal<Pointed | undefined>(undefined);
  const focused = useSignal<Spot | undefined>(undefined);
  const moved = useSignal(0);

  useEffect(() => {
    if (!scroller.current || !ground.current || !canvas.current) return;
    const parts = { scroller: scroller.current, ground: ground.current, canvas: canvas.current };
    const fleet = new FleetMap(parts, holdings, view.peek());
    map.current = fleet;
    fleet.onMove = () => moved.value++;
    const stop = new AbortController();
    listen(fleet, parts.scroller, parts.canvas, {
      hover: (spot, x, y) => (pointed.value = spot && { spot, x, y }),
      focus: (spot) => (focused.value = spot),
      open: (spot) => open.current(spot.node),
      focused: () => focused.value,
    }, stop.signal);
    const sizes = new ResizeObserver(() => {
      fleet.resize(holding.current);
      if (holding.current && focused.peek()) fleet.reveal(focused.peek() as Spot);
    });
    sizes.observe(parts.scroller);
    const hidden = expose(fleet, parts.canvas);
    const stopFollowing = follow((changes) => fleet.take(changes));
    const stopShowing = effect(() => fleet.show(view.value));
    return () => {
      stop.abort();
      sizes.disconnect();
      hidden();
      stopFollowing();
      stopShowing();
      fleet.close();
    };
  }, []);
  useEffect(() => {
    if (!selected) return;
    if (focused.peek()?.node !== selected) focused.value = { node: selected };
    map.current?.reveal({ node: selected });
  }, [selected]);

  moved.value;
  beat.value;
  const ring = focused.value && map.current?.boxOf(focused.value);
  const node = focused.value && holdings.nodes.get(focused.value.node);
  const hover = pointed.value;
  const hovered = hover && map.current?.boxOf(hover.spot);
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
      {hover && hovered && <Tooltip spot={hover.spot} x={hover.x} y={hover.y} />}
      <div class="map-buttons" role="group" aria-label="Zoom">
        <button type="button" aria-label="Zoom in" title="Zoom in (+)" onClick={() => map.current?.zoomBy(1.4)}>+</button>
        <button type="button" aria-label="Zoom out" title="Zoom out (−)" onClick={() => map.current?.zoomBy(1 / 1.4)}>−</button>
        <button type="button" aria-label="Show everything" title="Show everything (0)" onClick={() => map.current?.zoomHome()}>0</button>
      </div>
      <p class="visually-hidden" id="map-keys">
        Arrow keys move between nodes, Space goes into a node's GPUs and back, Enter opens, Home and End go to the
        first and last node, plus, minus and 0 zoom. The Nodes page has the same as a table.
      </p>
      <p class="visually-hidden" role="status">{focused.value && node ? describe(node, focused.value) : ""}</p>
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
