// What pages need beside the stream: the drawer of a phone, menus, dialogs,
// copying, and earlier messages.

import { copy, dress } from "../code.js";

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

// refresh shows the controls that need scripts.
export function refresh(element) {
  for (const button of element.querySelectorAll("[data-copy][hidden], [data-edit][hidden]")) button.hidden = false;
}

function drawer() {
  const side = document.getElementById("side");
  const opener = document.querySelector(".open-side");
  const open = (is) => {
    document.body.classList.toggle("side-open", is);
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
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !document.body.classList.contains("side-open")) return;
    event.preventDefault();
    open(false);
  });
}

function menus() {
  addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });
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

// earlier loads the page with the messages before these, and puts them above.
function earlier() {
  addEventListener("click", async (event) => {
    const link = event.target.closest("[data-earlier]");
    if (!link) return;
    event.preventDefault();
    if (link.ariaBusy === "true") return;
    link.ariaBusy = "true";
    try {
      const page = new DOMParser().parseFromString(await (await fetch(link.href)).text(), "text/html");
      const scroll = document.getElementById("scroll");
      const list = document.getElementById("messages");
      const below = scroll.scrollHeight - scroll.scrollTop;
      const more = [...page.getElementById("messages").children].filter((entry) => !document.getElementById(entry.id));
      list.prepend(...more);
      for (const entry of more) {
        dress(entry);
        refresh(entry);
      }
      const next = page.querySelector("[data-earlier]");
      if (next) link.href = next.href;
      else link.parentElement.remove();
      scroll.scrollTop = scroll.scrollHeight - below;
    } catch {
      location.assign(link.href);
    } finally {
      link.ariaBusy = "false";
    }
  });
}
