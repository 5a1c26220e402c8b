/** Charts that components describe: series over time, and histograms of rows. */
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { narrow } from "../app/media";
import { useQuery } from "../app/router";
import { now } from "../data/clock";
import type { Chart, Histogram, TimeChart } from "../data/description-types";
import { tableNamed } from "../data/store";
import { fieldValue, formatValue } from "../described/fields";
import { formatMoment, number } from "../lib/format";
import { areLoaded } from "../ui/table-notices";
import { histogramBuckets } from "./data";
import { type History, RANGES, type Range, useHistory } from "./history";
import { Plot } from "./plot";

/** The charts above the content of a page; folded beside details and on a phone, where they would fill the screen. */
export function PageCharts({ charts, folded }: { charts: readonly Chart[]; folded: boolean }): JSX.Element | null {
  if (charts.length === 0) return null;
  return (
    <details class="page-charts fold" open={!folded && !narrow.value}>
      <summary>Charts</summary>
      <ChartRow charts={charts} />
    </details>
  );
}

/** Charts side by side, with the choice of a range if any is over time. */
export function ChartRow({ charts, id = "" }: { charts: readonly Chart[]; id?: string }): JSX.Element | null {
  if (charts.length === 0) return null;
  return (
    <div class="charts">
      {charts.some((chart) => chart.type === "time") && <RangeChoice />}
      <div class="charts-row">
        {charts.map((chart) =>
          chart.type === "time" ? (
            <TimeChartView key={chart.title} chart={chart} id={id} />
          ) : (
            <HistogramView key={chart.title} chart={chart} />
          ),
        )}
      </div>
    </div>
  );
}

function useRange(): [Range, (range: string) => void] {
  const [range, setRange] = useQuery("range", "1h");
  return [range in RANGES ? (range as Range) : "1h", setRange];
}

function RangeChoice(): JSX.Element {
  const [range, setRange] = useRange();
  return (
    <div class="chart-range" role="group" aria-label="Range of the charts">
      {Object.entries(RANGES).map(([each, { title }]) => (
        <button key={each} type="button" class="toggle" aria-pressed={each === range} onClick={() => setRange(each)}>
          {title}
        </button>
      ))}
    </div>
  );
}

function TimeChartView({ chart, id }: { chart: TimeChart; id: string }): JSX.Element {
  const [range] = useRange();
  const names = chart.lines.map((line) => line.series);
  const state = useHistory({ names, key: id, byKey: chart.byKey }, range);
  const history = state && "history" in state ? state.history : undefined;
  const x = useMemo(() => timesOf(history), [history]);
  const lines = useMemo(() => linesOf(chart, history), [history, chart]);
  return (
    <Plot
      title={chart.title}
      x={x}
      lines={lines}
      style={chart.style}
      isTime
      isWhole={chart.format === "number"}
      xTitle="Time"
      formatX={(at) => formatMoment(at, now.peek())}
      formatY={(value) => formatValue(value, chart.format)}
      empty={state && "error" in state ? state.error : state ? "No values yet." : "Loading…"}
    />
  );
}

function linesOf(chart: TimeChart, history: History | undefined) {
  const keyed = Object.entries(history?.byKey ?? {}).map(([title, values]) => ({ title, values, dashed: false }));
  const named = chart.lines.map(({ series, title, dashed }) => ({
    title,
    dashed,
    values: history?.values[series] ?? [],
  }));
  return [...keyed, ...named];
}

function timesOf(history: History | undefined): number[] {
  if (!history) return [];
  const [values] = [...Object.values(history.byKey), ...Object.values(history.values)];
  return Array.from({ length: values?.length ?? 0 }, (_, at) => history.start + at * history.step);
}

function HistogramView({ chart }: { chart: Histogram }): JSX.Element {
  const table = tableNamed(chart.table);
  const version = table.version.value;
  const buckets = useMemo(() => {
    const values = [...table.peek().values()].map((row) => Number(fieldValue(row, chart.field) ?? 0));
    return histogramBuckets(values.filter(Number.isFinite), chart.buckets);
  }, [version, chart]);
  const x = useMemo(() => buckets.map((_, at) => at), [buckets]);
  const lines = useMemo(() => [{ title: "Count", values: buckets.map((bucket) => bucket.count) }], [buckets]);
  const format = (value: number) => formatValue(value, chart.format);
  return (
    <Plot
      title={chart.title}
      x={x}
      lines={lines}
      style="bars"
      isWhole
      xTitle="Value"
      formatX={(at) => {
        const bucket = buckets[at];
        if (!bucket) return "";
        const [from, to] = [format(bucket.from), format(bucket.to)];
        return from === to ? from : `${from}–${to}`;
      }}
      formatY={number}
      empty={areLoaded([chart.table]) ? "No values yet." : "Loading…"}
    />
  );
}
