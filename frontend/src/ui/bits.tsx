/** Small parts that every page uses. */
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { now } from "../clock";
import { ownerColour } from "../colours";
import { age, duration, moment } from "../format";
import { query, setQuery, useQuery } from "../router";
import { Icon } from "./icons";

/** How long ago something was; moves on by itself. */
export function Age({ since }: { since: number | undefined }): JSX.Element {
  if (since === undefined) return <span class="faint">–</span>;
  const seconds = now.value - since;
  return (
    <time class="num" title={`${moment(since, now.value)} (${duration(seconds)} ago)`}>
      {age(seconds)}
    </time>
  );
}

/** What is said where there is nothing. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children && <p class="muted">{children}</p>}
    </div>
  );
}

/** A share as a bar, with a mark at another share; one element, for tables have many. */
export function Meter({ share, label, colour, mark }: {
  share: number;
  label: string;
  colour?: string;
  mark?: number | undefined;
}): JSX.Element {
  const style = { "--share": width(share), "--fill": colour, "--mark": mark === undefined ? undefined : width(mark) };
  return <span class={mark === undefined ? "meter" : "meter marked"} role="img" aria-label={label} title={label} style={style} />;
}

function width(share: number): string {
  return `${Math.min(100, Math.max(0, share * 100))}%`;
}

/** The colour of an owner, beside its name. */
export function Swatch({ owner }: { owner: string }): JSX.Element {
  return <span class="swatch" style={{ background: ownerColour(owner) }} aria-hidden="true" />;
}

/** The filter box of a page, kept in the address as `q`. "/" goes to it. */
export function SearchBox({ label, name = "q" }: { label: string; name?: string }): JSX.Element {
  const [value, setValue] = useQuery(name);
  const [typed, setTyped] = useState(value);
  const latest = useRef(value);
  const take = (text: string) => {
    latest.current = text;
    setTyped(text);
  };
  useEffect(() => {
    // Effects run late: who types fast is ahead of the address that this one was made for.
    const now = query.peek().get(name) ?? "";
    if (now !== latest.current) take(now);
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
          take(event.currentTarget.value);
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

/** Options of a filter: none of it, or one of `values`. */
export function choices(all: string, values: Iterable<string>): { value: string; title: string }[] {
  return [{ value: "", title: all }, ...[...values].map((value) => ({ value, title: value }))];
}

/** Each value once, in order. */
export function different(values: Iterable<string>): string[] {
  return [...new Set(values)].sort(natural.compare);
}

const natural = new Intl.Collator("en", { numeric: true });

/** A choice of a filter, kept in the address; the first option is what no choice means. */
export function Choice({ label, name, options }: {
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
          <option key={option.value} value={option.value}>{option.title}</option>
        ))}
      </select>
      <Icon name="down" size={12} />
    </label>
  );
}

/** A yes or no, kept in the address as "1". */
export function Toggle({ label, name }: { label: string; name: string }): JSX.Element {
  const [value, setValue] = useQuery(name);
  return (
    <button type="button" class="toggle" aria-pressed={value === "1"} onClick={() => setValue(value === "1" ? "" : "1")}>
      {label}
    </button>
  );
}
