// Controls of the chat pages: the sidebar on phones, menus, the delete dialog, copy buttons,
// and loading earlier messages.

import { copy, dress } from "../code.js";
import { released } from "../press.js";

export function startControls() {
  drawer();
  menus();
  deletion();
  earlier();
  refresh(document);
  addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const source = button.closest("li").querySelector(button.dataset.copy);
    copy(button, source.content ? source.content.textContent : source.textContent);
  });
}

// refresh shows the buttons in an element that work only with scripts.
export function refresh(element) {
  for (const button of element.querySelectorAll("[data-copy][hidden], [data-edit][hidden]")) button.hidden = false;
}

function drawer() {
  const side = document.getElementById("side");
  const opener = document.querySelector(".open-side");
  const show = (is) => {
    document.body.classList.toggle("side-open", is);
    document.getElementById("main").inert = is; // Tab stays in the drawer
  };
  const open = (is) => {
    show(is);
    if (is) side.querySelector("a, button, input").focus();
    else opener?.focus();
  };
  addEventListener("click", (event) => {
    if (event.target.closest(".open-side")) {
      event.preventDefault();
      open(true);
    } else if (event.target.closest(".close-side")) {
      event.preventDefault();
      open(false);
    }
  });
  matchMedia("(min-width: 761px)").addEventListener("change", () => show(false)); // where it is no drawer
  addEventListener("open-side", () => { if (opener?.offsetParent) open(true); });
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !document.body.classList.contains("side-open")) return;
    event.preventDefault();
    open(false);
  });
}

function menus() {
  const closeOthers = (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target) || event.target.closest?.("[data-delete]")) menu.open = false;
    }
  };
  addEventListener("click", closeOthers);
  addEventListener("focusin", (event) => { if (!event.target.closest("[data-delete]")) closeOthers(event); });
  addEventListener("keydown", (event) => {
    const menu = document.querySelector("details.menu[open]");
    if (event.key !== "Escape" || !menu) return;
    event.preventDefault();
    menu.open = false;
    menu.querySelector("summary").focus();
  }, { capture: true });
}

function deletion() {
  const dialog = document.getElementById("delete-dialog");
  addEventListener("click", (event) => {
    if (!dialog || !event.target.closest("[data-delete]")) return;
    event.preventDefault();
    dialog.showModal();
  });
}

// earlier loads the previous page of messages above the first one, when the user scrolls
// near it or follows the link.
function earlier() {
  const scroll = document.getElementById("scroll");
  const list = document.getElementById("messages");
  const link = document.querySelector("[data-earlier]");
  if (!link) return;
  const near = new IntersectionObserver((seen) => { if (seen.at(-1).isIntersecting) load(); }, { root: scroll, rootMargin: "600px 0px" });

  async function load() {
    if (link.ariaBusy === "true") return;
    link.ariaBusy = "true";
    near.disconnect();
    try {
      const page = new DOMParser().parseFromString(await (await fetch(link.href)).text(), "text/html");
      await released();
      const more = [...page.getElementById("messages").children].filter((entry) => !document.getElementById(entry.id));
      const below = scroll.scrollHeight - scroll.scrollTop;
      list.prepend(...more);
      for (const entry of more) {
        dress(entry);
        refresh(entry);
      }
      const next = page.querySelector("[data-earlier]");
      if (next) {
        link.href = next.href;
        link.textContent = next.textContent;
        near.observe(link);
      } else link.parentElement.remove();
      scroll.scrollTop = scroll.scrollHeight - below;
    } catch {
      link.textContent = "Earlier messages can't be loaded now. Try again";
    } finally {
      link.ariaBusy = "false";
    }
  }

  link.addEventListener("click", (event) => {
    event.preventDefault();
    load();
  });
  addEventListener("load", () => setTimeout(() => near.observe(link))); // by then the page has scrolled to the newest message
}
