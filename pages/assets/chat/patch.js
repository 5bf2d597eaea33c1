// Replaces parts of a page that is being read: the focus, and what a reader has opened, folded
// or scrolled in them, stays.

const sources = new WeakMap(); // HTML that the server sent for an element
const focusable = "a[href], button, summary, pre";

// patch makes the children of an element those of html. Those that are the same stay. It
// returns the others.
export function patch(parent, html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  const before = [...parent.children];
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  const fresh = [];
  const now = [...holder.content.children].map((child, i) => {
    const old = child.id ? before.find((one) => one.id === child.id) : before[i];
    const source = child.outerHTML;
    if (old && sources.get(old) === source) return old;
    sources.set(child, source);
    fresh.push({ child, old });
    return child;
  });
  for (const child of before) if (!now.includes(child)) child.remove();
  now.forEach((child, i) => { if (parent.children[i] !== child) parent.insertBefore(child, parent.children[i] ?? null); });
  for (const { child, old } of fresh) if (old) carryOver(old, child, focused);
  if (focused && document.activeElement === document.body) document.getElementById("text-field")?.focus();
  return fresh.map(({ child }) => child);
}

function carryOver(old, child, focused) {
  const folds = (element) => [element, ...element.querySelectorAll("details")].filter((one) => one.matches("details"));
  const open = folds(old).map((details) => details.open);
  folds(child).forEach((details, i) => { details.open = open[i] ?? false; });
  const at = [...old.querySelectorAll(focusable)].indexOf(focused);
  if (at >= 0) child.querySelectorAll(focusable)[at]?.focus({ preventScroll: true });
}

// Thoughts keeps the thoughts of an answer under way as the reader has folded and scrolled
// them. The end of one that grows stays in sight, unless the reader has moved up.
export class Thoughts {
  constructor(text) {
    this.text = text;
    text.addEventListener("click", (event) => {
      const thought = event.target.closest("summary")?.parentElement;
      if (thought) thought.dataset.chosen = "";
    });
    for (const thought of text.querySelectorAll(".thought")) toEnd(thought);
  }

  // hold notes how the thoughts are shown, and returns a function that shows those that have
  // taken their places likewise.
  hold() {
    const before = [...this.text.children].map((thought) => {
      if (!thought.matches(".thought")) return null;
      const { scrollTop: top, scrollHeight, clientHeight } = thought.lastElementChild;
      return { thought, top, atEnd: scrollHeight - top - clientHeight < 4, focused: thought.contains(document.activeElement) };
    });
    return () => [...this.text.children].forEach((thought, i) => {
      const was = before[i];
      if (!thought.matches(".thought") || was?.thought === thought) return;
      if (was && "chosen" in was.thought.dataset) {
        thought.open = was.thought.open;
        thought.dataset.chosen = "";
      }
      if (!was || was.atEnd) toEnd(thought);
      else thought.lastElementChild.scrollTop = was.top;
      if (was?.focused) thought.querySelector("summary").focus({ preventScroll: true });
    });
  }
}

function toEnd(thought) { thought.lastElementChild.scrollTop = thought.lastElementChild.scrollHeight; }
