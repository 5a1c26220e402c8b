/** All search targets, from the current tables. */

import { tableHref } from "../app/links";
import { pages } from "../app/pages";
import { description } from "../data/description";
import { tableNamed } from "../data/store";
import { fillTemplate, idParts } from "../described/fields";
import type { Target } from "./matcher";

/** Pages first, pods last: among equal matches the earlier one ranks higher. */
export function* targets(): Generator<Target> {
  for (const page of pages)
    yield { kind: "Page", name: page.title, detail: page.key && `g ${page.key}`, href: () => page.path };
  for (const { table, kind, detail } of description.search)
    for (const row of tableNamed(table).peek().values())
      yield {
        kind,
        name: idParts(row.id).name,
        detail: detail.flatMap((template) => fillTemplate(template, row) ?? []).join(", "),
        href: () => tableHref(table, row.id),
      };
}
