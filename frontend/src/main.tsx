import { render } from "preact";
import { App } from "./app";
import { startAttention } from "./attention";
import { startKeys } from "./keys";
import { pages } from "./pages";
import { startRouting } from "./router";
import { follow } from "./stream";
import "./style/index.css";
import { startTheme } from "./theme";

startTheme();
startRouting();
startKeys(new Map(pages.map((page) => [page.key, page.path])));
const root = document.getElementById("app");
if (root) render(<App />, root);
startAttention();
void follow();
