/** The live object behind a row, as it is in the cluster. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { said } from "../actions";
import type { TableName } from "../rows";
import { yaml } from "../yaml";

/** Folded; asks for the object each time it is opened. */
export function LiveObject({ table, id, title = "Live object" }: { table: TableName; id: string; title?: string }): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <details class="fold" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{title}</summary>
      {open && <Text table={table} id={id} />}
    </details>
  );
}

function Text({ table, id }: { table: TableName; id: string }): JSX.Element {
  const [text, setText] = useState("…");
  useEffect(() => {
    let current = true;
    fetch(`/api/object?${new URLSearchParams({ table, id })}`)
      .then((answer) => said<unknown>(answer))
      .then((object) => current && setText(yaml(object)))
      .catch((error: Error) => current && setText(error.message));
    return () => {
      current = false;
    };
  }, [table, id]);
  return <pre class="code" tabIndex={0} aria-label={`Object ${id}`}>{text}</pre>;
}
