/** The live object of a row, as YAML. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { readReply } from "../data/actions";
import { yaml } from "../lib/yaml";

/** Collapsed; fetches the object each time it is opened. */
export function LiveObject({
  table,
  id,
  title = "Live object",
}: {
  table: string;
  id: string;
  title?: string;
}): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <details class="fold" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      {open && <Text table={table} id={id} />}
    </details>
  );
}

function Text({ table, id }: { table: string; id: string }): JSX.Element {
  const [text, setText] = useState("…");
  useEffect(() => {
    let current = true;
    fetch(`/api/object?${new URLSearchParams({ table, id })}`)
      .then((reply) => readReply<unknown>(reply))
      .then((object) => current && setText(yaml(object)))
      .catch((error: Error) => current && setText(error.message));
    return () => {
      current = false;
    };
  }, [table, id]);
  return (
    <pre class="code" tabIndex={0} aria-label={`Object ${id}`}>
      {text}
    </pre>
  );
}
