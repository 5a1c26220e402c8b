/** Formats JSON values as YAML, for display. */

/** A value as YAML in block style. */
export function yaml(value: unknown): string {
  return lines(value).join("\n");
}

function lines(value: unknown): string[] {
  if (Array.isArray(value)) {
    if (value.length === 0) return ["[]"];
    return value.flatMap((each) => lines(each).map((line, at) => (at === 0 ? `- ${line}` : `  ${line}`)));
  }
  if (value !== null && typeof value === "object") {
    const entries = Object.entries(value);
    if (entries.length === 0) return ["{}"];
    return entries.flatMap(([name, each]) => {
      const key = scalar(name);
      if (typeof each === "string" && each.includes("\n"))
        return [
          `${key}: |`,
          ...each
            .replace(/\n$/, "")
            .split("\n")
            .map((line) => `  ${line}`),
        ];
      const below = lines(each);
      if (!isBlock(each)) return [`${key}: ${below[0]}`];
      return [`${key}:`, ...below.map((line) => (Array.isArray(each) ? line : `  ${line}`))];
    });
  }
  return [scalar(value)];
}

function isBlock(value: unknown): boolean {
  if (value === null || typeof value !== "object") return false;
  return Array.isArray(value) ? value.length > 0 : Object.keys(value).length > 0;
}

function scalar(value: unknown): string {
  if (typeof value !== "string") return String(value);
  const plain = /^[A-Za-z0-9_./][A-Za-z0-9_./ ()+@%=-]*$/.test(value) && !/\s$/.test(value);
  const other = /^(true|false|null|yes|no|on|off|~|[-+]?[\d.][\d._eE+-]*|0x[\da-fA-F]+)$/i.test(value);
  return plain && !other ? value : JSON.stringify(value);
}
