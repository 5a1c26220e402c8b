/** Small components used by all pages. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { query, setQuery, useQuery } from "../app/router";
import { now } from "../data/clock";
import { age, duration, formatMoment } from "../lib/format";
import { ownerColour } from "../lib/owner-colours";
import { Icon } from "./icons";

/** The time since `since`, updated every second. */
export function Age({ since }: { since: number | undefined }): JSX.Element {
  if (since === undefined) return <span class="faint">–</span>;
  const seconds = now.value - since;
  return (
    <time class="num" title={`${formatMoment(since, now.value)} (${duration(seconds)} ago)`}>
      {age(seconds)}
    </time>
  );
}

/** Shown in place of an empty list. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <p class="muted">{children}</p>}
    </div>
  );
}

/** A share as a bar, with an optional mark; a single element, since tables have many. */
export function Meter({
  share,
  label,
  colour,
  mark,
}: {
  share: number;
  label: string;
  colour?: string;
  mark?: number | undefined;
}): JSX.Element {
  const style = { "--share": width(share), "--fill": colour, "--mark": mark === undefined ? undefined : width(mark) };
  return (
    <span
      class={mark === undefined ? "meter" : "meter marked"}
      role="img"
      aria-label={label}
      title={label}
      style={style}
    />
  );
}

function width(share: number): string {
  return `${Math.min(100, Math.max(0, share * 100))}%`;
}

/** The colour of an owner, shown beside its name. */
export function Swatch({ owner }: { owner: string }): JSX.Element {
  return <span class="swatch" style={{ background: ownerColour(owner) }} aria-hidden="true" />;
}

/** The filter box of a page, stored in the address as `q`. "/" focuses it. */
export function SearchBox({ label, name = "q" }: { label: string; name?: string }): JSX.Element {
  const [value, setValue] = useQuery(name);
  const [typed, setTyped] = useState(value);
  const latest = useRef(value);
  const update = (text: string) => {
    latest.current = text;
    setTyped(text);
  };
  useEffect(() => {
    // Effects run late: fast typing may be ahead of the address for which this effect was scheduled.
    const now = query.peek().get(name) ?? "";
    if (now !== latest.current) update(now);
  }, [value]);
  return (
    <label class="searchbox">
      <Icon name="search" size={14} />
      <input
        type="search"
        data-search
        aria-label={label}
        placeholder={label}
        value={typed}
        onInput={(event) => {
          update(event.currentTarget.value);
          setValue(event.currentTarget.value);
        }}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          event.stopPropagation();
          if (typed) setQuery({ [name]: undefined });
          else event.currentTarget.blur();
        }}
      />
      <kbd aria-hidden="true">/</kbd>
    </label>
  );
}

/** Options of a filter: no filter, or one of `values`. */
export function filterOptions(all: string, values: Iterable<string>): { value: string; title: string }[] {
  return [{ value: "", title: all }, ...[...values].map((value) => ({ value, title: value }))];
}

/** Distinct values, sorted. */
export function distinct(values: Iterable<string>): string[] {
  return [...new Set(values)].sort(natural.compare);
}

const natural = new Intl.Collator("en", { numeric: true });

/** A filter with options, stored in the address; the first option is the default. */
export function FilterSelect({
  label,
  name,
  options,
}: {
  label: string;
  name: string;
  options: { value: string; title: string }[];
}): JSX.Element {
  const [value, setValue] = useQuery(name, options[0]?.value ?? "");
  const known = options.some((option) => option.value === value);
  return (
    <label class={`choice${value === options[0]?.value ? "" : " chosen"}`}>
      <span class="visually-hidden">{label}</span>
      <select value={value} onChange={(event) => setValue(event.currentTarget.value)}>
        {!known && <option value={value}>{value}</option>}
        {options.map((option) => (
          <option key={option.value} value={option.value}>
            {option.title}
          </option>
        ))}
      </select>
      <Icon name="down" size={12} />
    </label>
  );
}

/** A boolean filter, stored in the address as "1". */
export function Toggle({ label, name }: { label: string; name: string }): JSX.Element {
  const [value, setValue] = useQuery(name);
  return (
    <button
      type="button"
      class="toggle"
      aria-pressed={value === "1"}
      onClick={() => setValue(value === "1" ? "" : "1")}
    >
      {label}
    </button>
  );
}
