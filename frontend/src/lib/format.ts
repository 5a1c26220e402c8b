/** Formatting of values for display. */

/** A duration as "42 s", "3 min 5 s", "2 h 10 min", "5 d 3 h": the two largest units. */
export function duration(seconds: number): string {
  if (seconds < 0) return "0 s";
  if (seconds < 1) return seconds === 0 ? "0 s" : `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 10) return `${trim(seconds.toFixed(1))} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return pair(whole, 60, "min", 1, "s");
  if (whole < 86400) return pair(whole, 3600, "h", 60, "min");
  return pair(whole, 86400, "d", 3600, "h");
}

/** An age in one unit: "42s", "3m", "2h", "5d". */
export function age(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m`;
  if (whole < 86400) return `${Math.floor(whole / 3600)}h`;
  return `${Math.floor(whole / 86400)}d`;
}

/** Bytes as "512 MiB", "80 GiB". */
export function bytes(amount: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (Math.abs(amount) >= 1024 && at < units.length - 1) {
    amount /= 1024;
    at++;
  }
  return `${number(amount)} ${units[at]}`;
}

/** A plain number, with thin spaces between thousands and at most one digit after the point. */
export function number(amount: number): string {
  const text = Math.abs(amount) < 100 ? trim(amount.toFixed(1)) : Math.round(amount).toString();
  const [whole = "0", part] = text.split(".");
  const spaced = whole.replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
  return part ? `${spaced}.${part}` : spaced;
}

/** A plain number with up to two digits after the point, as in command output: for GPUs, which can be shared. */
export function formatExact(amount: number): string {
  const rounded = Math.round(amount * 100) / 100;
  return Number.isInteger(rounded) ? number(rounded) : String(rounded);
}

/** An amount of a resource: bytes where the resource is memory or storage. */
export function amount(resource: string, value: number): string {
  return isBytes(resource) ? bytes(value) : resource === "nvidia.com/gpu" ? formatExact(value) : number(value);
}

/** The display name of a resource. */
export function resourceTitle(resource: string): string {
  const known: Record<string, string> = {
    "nvidia.com/gpu": "GPUs",
    cpu: "CPU cores",
    memory: "Memory",
    pods: "Pods",
    "ephemeral-storage": "Storage",
  };
  return known[resource] ?? resource;
}

/** A share from 0 to 1 as "37 %". */
export function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** US dollars: "$2.50", "$1 234". */
export function money(dollars: number): string {
  return dollars < 100 ? `$${dollars.toFixed(2)}` : `$${number(dollars)}`;
}

/** "1 pod", "3 pods"; `many` for irregular plurals. */
export function pluralize(count: number, one: string, many = `${one}s`): string {
  return `${formatExact(count)} ${count === 1 ? one : many}`;
}

/** The time of day, with the date where it is not today's. */
export function formatMoment(at: number, now: number): string {
  const then = new Date(at * 1000);
  const time = then.toLocaleTimeString("en-GB");
  const sameDay = then.toDateString() === new Date(now * 1000).toDateString();
  return sameDay ? time : `${then.toLocaleDateString("en-CA")} ${time}`;
}

/** Splits "namespace/name"; a name alone has no namespace. */
export function splitId(id: string): { namespace: string; name: string } {
  const slash = id.indexOf("/");
  return { namespace: slash < 0 ? "" : id.slice(0, slash), name: id.slice(slash + 1) };
}

function isBytes(resource: string): boolean {
  return resource === "memory" || resource.endsWith("storage") || resource.startsWith("hugepages-");
}

function pair(whole: number, unit: number, name: string, part: number, partName: string): string {
  const rest = Math.floor((whole % unit) / part);
  return `${Math.floor(whole / unit)} ${name}${rest ? ` ${rest} ${partName}` : ""}`;
}

function trim(text: string): string {
  return text.replace(/\.0$/, "");
}
