// The web chat. All HTML comes from the server; the scripts put it where it
// belongs, and send what is written. Without them the pages work as plain forms.

import { dress } from "../code.js";
import { startComposer } from "./composer.js";
import { startControls } from "./controls.js";
import { follow, startStream } from "./stream.js";

const talk = document.getElementById("main");

startControls();
dress(document);

if (document.getElementById("compose")) {
  const composer = startComposer(talk);
  startStream(talk, composer);
} else if (document.getElementById("to-end")) {
  follow(document.getElementById("scroll"), document.getElementById("to-end"));
}
