// The web chat. All HTML comes from the server; the scripts insert it, and send what is
// written. Without them the pages work as plain forms.

import { dress } from "../code.js";
import { startComposer } from "./composer.js";
import { startControls } from "./controls.js";
import { followImport } from "./importing.js";
import { startList } from "./list.js";
import { startSearch } from "./search.js";
import { startShortcuts } from "./shortcuts.js";
import { follow, startStream } from "./stream.js";

const talk = document.getElementById("main");

startControls();
startList();
startSearch();
startShortcuts();
dress(document);
followImport(document.getElementById("import-status"));

if (document.getElementById("compose")) {
  const composer = startComposer(talk);
  startStream(talk, composer);
} else if (document.getElementById("to-end")) {
  follow(document.getElementById("scroll"), document.getElementById("to-end"));
}
