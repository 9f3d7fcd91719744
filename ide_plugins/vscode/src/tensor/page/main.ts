// The start of the tensor view's page.

import { listen, tell } from "./connection";
import { View } from "./view";

const view = new View(document.body);
listen((message) => view.hear(message));
tell({ kind: "ready" });
