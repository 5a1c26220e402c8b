/** A plot with its legend, and its values as a table for those who cannot see it. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import { theme } from "../app/theme";
import "uplot/dist/uPlot.min.css";
import { evenPositions, type LineData, lastValue, stackValues, summarize, type Value } from "./data";
import { lineColour, type PlotStyle, plotOptions } from "./plot-options";

const MAX_TABLE_ROWS = 12;

export interface PlotProps {
  title: string;
  /** Positions on the x axis, ascending. */
  x: readonly number[];
  lines: readonly (LineData & { dashed?: boolean })[];
  style: PlotStyle;
  isTime?: boolean;
  isWhole?: boolean;
  /** The title of the x axis in the table. */
  xTitle: string;
  formatX: (value: number) => string;
  formatY: (value: number) => string;
  /** Text in place of an empty plot. */
  empty: string;
}

/** The library is loaded with the first plot. */
export function Plot(props: PlotProps): JSX.Element {
  const { title, x, lines, formatY } = props;
  const [point, setPoint] = useState<number | undefined>(undefined);
  const isEmpty = !lines.some(({ values }) => lastValue(values) !== undefined);
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{title}</span>
        <span class="chart-at faint">{point !== undefined && x[point] !== undefined && props.formatX(x[point])}</span>
        <span class="chart-legend">
          {lines.map((line, at) => {
            const value = point === undefined ? lastValue(line.values) : line.values[point];
            if (props.style === "bars" && point === undefined) return null;
            return (
              <span key={line.title} class="chart-key">
                <i
                  class={line.dashed ? "dashed" : undefined}
                  style={{ "--ink": `var(${line.dashed ? "--faint" : lineColour(at)})` }}
                  aria-hidden="true"
                />
                {lines.length > 1 && line.title} <b>{typeof value === "number" ? formatY(value) : "–"}</b>
              </span>
            );
          })}
        </span>
      </figcaption>
      {isEmpty ? (
        <p class="chart-empty muted">{props.empty}</p>
      ) : (
        <>
          <Canvas {...props} onPoint={setPoint} />
          <ValueTable {...props} />
        </>
      )}
    </figure>
  );
}

function Canvas(props: PlotProps & { onPoint: (at: number | undefined) => void }): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const latest = useRef(props);
  latest.current = props;
  const [failed, setFailed] = useState(false);
  const current = theme.value;
  const shape = `${props.style} ${props.lines.map((line) => `${line.title} ${line.dashed}`).join()}`;
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    let shown: uPlot | undefined;
    let ended = false;
    const sizes = new ResizeObserver(() => {
      if (shown && element.clientWidth > 0) shown.setSize({ width: element.clientWidth, height: shown.height });
    });
    const draw = ({ default: Library }: { default: typeof uPlot }) => {
      if (ended) return;
      const { style, lines, isTime = false, isWhole = false } = latest.current;
      const options = plotOptions(
        {
          lines,
          style,
          isTime,
          isWhole,
          formatX: (value) => latest.current.formatX(value),
          formatY: (value) => latest.current.formatY(value),
          onPoint: (at) => latest.current.onPoint(at),
        },
        element,
      );
      if (style === "bars") {
        const paths = Library.paths.bars?.({ size: [0.9, 80] });
        for (const series of options.series.slice(1)) if (paths) series.paths = paths;
      }
      shown = new Library(options, plotData(latest.current), element);
      plot.current = shown;
      sizes.observe(element);
    };
    // Where the library cannot be loaded, the values remain as a table.
    void import("uplot").then(draw, () => setFailed(true));
    return () => {
      ended = true;
      sizes.disconnect();
      plot.current = undefined;
      shown?.destroy();
    };
  }, [current, shape]);
  useEffect(() => plot.current?.setData(plotData(props)), [props.x, props.lines]);
  if (failed) return <p class="chart-empty muted">The chart cannot be drawn: reload the page.</p>;
  return <div class="chart-plot" ref={box} role="img" aria-label={`${props.title}. ${describe(props)}`} />;
}

/** What the plot shows, as text: of a histogram each bucket, else the range of each line. */
function describe({ style, x, lines, formatX, formatY }: PlotProps): string {
  if (style !== "bars") return summarize(lines, formatY);
  return x.map((each, at) => `${formatX(each)}: ${formatY(lines[0]?.values[at] ?? 0)}`).join(", ");
}

/** Dashed lines are never stacked. */
function plotData({ x, lines, style }: PlotProps): uPlot.AlignedData {
  const values: (readonly Value[])[] = lines.map((line) => line.values);
  if (style === "stacked") {
    const positions = lines.flatMap((line, at) => (line.dashed ? [] : [at]));
    const stacked = stackValues(positions.map((at) => values[at] ?? []));
    for (const [order, at] of positions.entries()) values[at] = stacked[order] ?? [];
  }
  return [[...x], ...values.map((each) => [...each])] as uPlot.AlignedData;
}

function ValueTable({ title, x, lines, xTitle, formatX, formatY }: PlotProps): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <details class="fold chart-values" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary aria-label={`Values of ${title}`}>Values</summary>
      {open && (
        <table class="plain">
          <thead>
            <tr>
              <th>{xTitle}</th>
              {lines.map((line) => (
                <th key={line.title} class="num">
                  {line.title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {evenPositions(x.length, MAX_TABLE_ROWS).map((at) => (
              <tr key={at}>
                <td>{formatX(x[at] ?? 0)}</td>
                {lines.map((line) => {
                  const value = line.values[at];
                  return (
                    <td key={line.title} class="num">
                      {typeof value === "number" ? formatY(value) : "–"}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </details>
  );
}
