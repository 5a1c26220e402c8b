import { render } from "preact";
import { App } from "./app/app";
import { startKeys } from "./app/keys";
import { pages } from "./app/pages";
import { startRouting } from "./app/router";
import { trackTabVisibility } from "./app/tab-visibility";
import { runStream } from "./data/stream";
import "./style/index.css";
import { startTheme } from "./app/theme";

startTheme();
startRouting();
startKeys(new Map(pages.filter((page) => page.key).map((page) => [page.key, page.path])));
const root = document.getElementById("app");
if (root) render(<App />, root);
trackTabVisibility();
void runStream();
