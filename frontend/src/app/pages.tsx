/**
 * The pages that the server describes.
 *
 * A file in src/pages is the view of the page of its name: "/fleet" is fleet.tsx. Other pages are
 * rendered from their description.
 */
import type { ComponentType } from "preact";
import { description } from "../data/description";
import type { Page as PageDescription } from "../data/description-types";
import { DescribedPage } from "../described/page";

const views = import.meta.glob<ComponentType>("../pages/*.tsx", { eager: true, import: "default" });

export interface Page extends PageDescription {
  view: ComponentType;
}

/** In the order of the navigation. */
export const pages: Page[] = description.pages.map((page) => ({
  ...page,
  hasDetails: page.hasDetails || Boolean(page.table),
  view: views[`../pages${page.path}.tsx`] ?? (() => <DescribedPage page={page} />),
}));
