/** Options of a plot, in the colours of the page. */
import type uPlot from "uplot";

export interface PlotLine {
  title: string;
  dashed?: boolean;
}

export type PlotStyle = "line" | "area" | "stacked" | "bars";

export interface PlotSettings {
  lines: readonly PlotLine[];
  style: PlotStyle;
  /** Values of the x axis are times. */
  isTime: boolean;
  formatX: (value: number) => string;
  formatY: (value: number) => string;
  /** Values are counts: the axis has whole numbers only. */
  isWhole: boolean;
  /** Called with the position under the pointer, or undefined. */
  onPoint: (at: number | undefined) => void;
}

const HEIGHT = 132;
/** The shortest time that a chart shows. */
const LEAST_SECONDS = 300;
const WHOLE_STEPS = [1, 2, 5]
  .flatMap((digit) => Array.from({ length: 12 }, (_, power) => digit * 10 ** power))
  .sort((a, b) => a - b);
const COLOURS = ["--accent", "--warn", "--good", "--busy", "--wait", "--bad", "--idle"];

/** The colour of a line, as a variable of the style sheet. */
export function lineColour(at: number): string {
  return COLOURS[at % COLOURS.length] ?? "--accent";
}

/** Options for the library; `element` resolves the colours of the current theme. */
export function plotOptions(settings: PlotSettings, element: HTMLElement): uPlot.Options {
  const colour = colourReader(element);
  const { lines, style } = settings;
  const font = `11px ${getComputedStyle(element).fontFamily}`;
  const axis = {
    stroke: colour("--faint"),
    font,
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { show: false },
  };
  return {
    width: Math.max(80, element.clientWidth),
    height: HEIGHT,
    padding: [8, 18, 0, 0],
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, y: false, points: { show: style !== "bars" } },
    scales: {
      x: {
        time: settings.isTime,
        range: (_, min, max) => (settings.isTime ? timeRange(min, max) : [min - 0.5, max + 0.5]),
      },
      y: { range: (_, __, max) => [0, niceMaximum(max, settings.isWhole)] },
    },
    axes: [
      {
        ...axis,
        size: 26,
        space: 80,
        grid: { show: false },
        values: (_, at) => at.map(settings.isTime ? timeOfDay : settings.formatX),
      },
      {
        ...axis,
        size: 52,
        space: 34,
        values: (_, at) => at.map(settings.formatY),
        ...(settings.isWhole && { incrs: WHOLE_STEPS }),
      },
    ],
    series: [{}, ...lines.map((line, at) => lineOptions(line, at, style, colour))],
    ...(style === "stacked" && { bands: stackBands(lines, colour) }),
    hooks: { setCursor: [(plot) => settings.onPoint(plot.cursor.idx ?? undefined)] },
  };
}

function lineOptions(line: PlotLine, at: number, style: PlotStyle, colour: (name: string) => string): uPlot.Series {
  const stroke = colour(line.dashed ? "--faint" : lineColour(at));
  const filled = !line.dashed && (style === "area" || style === "bars" || (style === "stacked" && at === 0));
  return {
    label: line.title,
    stroke,
    width: 1.5,
    // A single sample has no line.
    points: { show: (_, __, first, last) => style !== "bars" && last - first < 2 },
    spanGaps: false,
    ...(line.dashed && { dash: [4, 4] }),
    ...(filled && { fill: withAlpha(stroke, style === "bars" ? 0.75 : 0.16) }),
  };
}

/** Fills between neighbours; the lowest is filled down to the axis. */
function stackBands(lines: readonly PlotLine[], colour: (name: string) => string): uPlot.Band[] {
  const stacked = lines.flatMap((line, at) => (line.dashed ? [] : [at]));
  return stacked.slice(1).map((at, below) => ({
    series: [at + 1, (stacked[below] ?? 0) + 1],
    fill: withAlpha(colour(lineColour(at)), 0.16),
  }));
}

function timeOfDay(at: number): string {
  return new Date(at * 1000).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

/** The known times; before the first sample, none. */
function timeRange(min: number | null, max: number | null): uPlot.Range.MinMax {
  const end = max ?? Date.now() / 1000;
  return [Math.min(min ?? end, end - LEAST_SECONDS), end];
}

/** Somewhat above the maximum, so that the highest line is not at the edge. */
function niceMaximum(max: number | null, isWhole: boolean): number {
  const top = (max ?? 0) * 1.08;
  return isWhole ? Math.max(1, top) : top || 1;
}

/** Reads colours as the browser resolves them: canvas does not know variables, nor light-dark(). */
function colourReader(element: HTMLElement): (name: string) => string {
  const probe = document.createElement("span");
  return (name) => {
    probe.style.color = `var(${name})`;
    element.append(probe);
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  };
}

function withAlpha(colour: string, alpha: number): string {
  return colour.replace(/^rgb\((.*)\)$/, `rgb($1, ${alpha})`);
}
