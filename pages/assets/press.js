// Holds back changes of a page while a control is pressed. A browser makes no click of a press whose
// element is replaced, or moves from under the pointer, before the release.

const longest = 3000; // ms that a press holds changes back
const untilClick = 60; // ms from the release to the click, which comes later on touch screens

let end = Promise.resolve();
let finish = null; // resolves end while a control is pressed
let timer;

// released returns a promise that is fulfilled when no control is pressed.
export const released = () => end;

function begin(event) {
  if (!event.target.closest?.("a, button, summary")) return;
  if (!finish) end = new Promise((resolve) => { finish = resolve; });
  finishIn(longest);
}

function finishIn(ms) {
  clearTimeout(timer);
  timer = setTimeout(() => {
    finish?.();
    finish = null;
  }, ms);
}

function over() { if (finish) finishIn(untilClick); }

addEventListener("pointerdown", begin, { capture: true });
addEventListener("keydown", (event) => { if (event.key === " " && !event.repeat) begin(event); }, { capture: true }); // a click comes with keyup
for (const name of ["pointerup", "pointercancel", "keyup"]) addEventListener(name, over, { capture: true });
addEventListener("blur", over); // of the window
