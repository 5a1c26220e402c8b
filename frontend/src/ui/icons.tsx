/** Icons: strokes on a grid of 16, in the colour of the text. */
import type { JSX } from "preact";

const shapes = {
  fleet: "M2.5 2.5h4.500v4.500h-4.500zM9 2.5h4.500v4.500h-4.500zM2.5 9h4.500v4.500h-4.500zM9 9h4.500v4.500h-4.500z",
  workloads: "M8 1.800 14 5 8 8.200 2 5zM2 8.200l6 3.200 6-3.200M2 11.200l6 3.200 6-3.200",
  queues: "M2 3.500h12M2 8h8M2 12.500h5",
  nodes: "M2.500 2.500h11v4.500h-11zM2.500 9h11v4.500h-11zM5 4.750h.01M5 11.250h.01",
  events: "M1.500 8.500h3l2-5.500 3 10.500 2-5h3",
  search: "M7 2.500a4.500 4.500 0 1 1 0 9 4.500 4.500 0 0 1 0-9zM10.300 10.300l3.400 3.400",
  close: "M3.500 3.500l9 9M12.500 3.500l-9 9",
  up: "M4 10l4-4 4 4",
  down: "M4 6l4 4 4-4",
  right: "M6 4l4 4-4 4",
  light:
    "M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6zM8 1v1.500M8 13.500v1.500M1 8h1.500M13.500 8h1.500M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  dark: "M13.500 9.500A6 6 0 0 1 6.500 2.500a6 6 0 1 0 7 7z",
  system: "M2 3h12v8h-12zM6 13.500h4",
  pause: "M5.500 3.500v9M10.500 3.500v9",
  play: "M5 3l8 5-8 5z",
  keys: "M1.500 4h13v8h-13zM4 6.500h.01M7 6.500h.01M10 6.500h.01M12.500 6.500h.01M4.500 9.500h7",
  bin: "M2.500 4.500h11M6 4.500v-2h4v2M4 4.500l.600 9h6.800l.600-9M6.700 7v4M9.300 7v4",
} as const;

export type IconName = keyof typeof shapes;

/** The shape of a page without an icon of its own. */
const PAGE = "M3.500 1.500h6l3 3v10h-9zM9.500 1.500v3h3M6 8h4M6 11h4";
const PATH = /^[Mm][-\d\s.,a-zA-Z]+$/;

/** An icon, by its name or its path; decoration only, so give its button a name. */
export function Icon({ name, size = 16 }: { name: IconName | (string & {}); size?: number }): JSX.Element {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true">
      <path d={name in shapes ? shapes[name as IconName] : PATH.test(name) ? name : PAGE} />
    </svg>
  );
}
