// The list of chats: groups by day, further pages, a menu for each chat, and several
// chats at once. The lines come from the server, in the order of their last use.

import { released } from "../press.js";
import { midnight } from "../time.js";
import { Changes } from "./changes.js";
import { isComposing } from "./keys.js";
import { Removal } from "./removal.js";
import { Toast } from "./toast.js";

const chats = document.getElementById("chats");
const menu = document.getElementById("line-menu");
const bar = document.getElementById("selecting");
const older = { open: [], archived: [] }; // lines of further pages, which stay when the first page changes
const next = {}; // addresses of the pages that follow those
const loading = {}; // by list: a further page is on its way
let selected = null; // addresses of chats while several are chosen
let missed = null; // the first page as it came while a chat was being renamed

const hrefOf = (line) => line.querySelector("a").getAttribute("href");
const titleOf = (line) => line.querySelector("a span").textContent;
const lines = () => [...chats.querySelectorAll("li[data-name]")];
export const current = () => document.getElementById("main").dataset.url ?? location.pathname;

export const toast = new Toast();
const removal = new Removal(toast, arrange);
export const changes = new Changes(toast);

export function startList() {
  near.observe(chats);
  arrange();
  chats.addEventListener("click", (event) => {
    const line = event.target.closest("li[data-name]");
    const more = event.target.closest("[data-older]");
    if (more) {
      event.preventDefault();
      load(more);
    } else if (line && event.target.closest(".line-more")) openMenu(line);
    else if (line && selected) {
      event.preventDefault();
      choose(line);
    }
  });
  menu.addEventListener("click", (event) => {
    const button = event.target.closest("[data-do]");
    if (button) perform(button.dataset.do, event.detail === 0); // a key makes a click without a count
  });
  menu.addEventListener("keydown", moveInMenu);
  addEventListener("pointerdown", (event) => { if (!menu.contains(event.target) && !event.target.closest(".line-more")) closeMenu(); });
  chats.addEventListener("scroll", () => closeMenu(), { passive: true });
  bar.addEventListener("click", (event) => {
    const what = event.target.closest("[data-do]")?.dataset.do;
    if (what === "delete") remove(chosen());
    if (what === "archive") archive(chosen().filter((line) => !("archived" in line.dataset)));
    if (what) select(null);
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || (menu.hidden && !selected)) return;
    event.preventDefault();
    if (menu.hidden) select(null);
    else closeMenu(true);
  }, { capture: true });
}

// showList replaces the first page of the list.
export function showList(html) {
  if (chats.querySelector("input")) { // somebody is renaming a chat
    missed = html;
    return;
  }
  missed = null;
  const open = chats.querySelector("details")?.open;
  const focus = heldFocus();
  chats.innerHTML = html; // the same for all pages
  const details = chats.querySelector("details");
  if (details && open) details.open = true;
  arrange();
  if (menuLine) { // the menu is open: it is one of the new line now
    const url = hrefOf(menuLine);
    menuLine = lines().find((line) => hrefOf(line) === url) ?? null;
    if (!menuLine) closeMenu();
  }
  focus();
}

// heldFocus returns a function that gives the focus to what has taken the place of the element
// of the list that has it now.
function heldFocus() {
  const focused = document.activeElement;
  if (!chats.contains(focused)) return () => {};
  const line = focused.closest("li[data-name]");
  const url = line && hrefOf(line);
  const kind = focused.matches(".line-more") ? ".line-more" : line ? "a" : focused.matches("[data-older]") ? `[data-older=${focused.dataset.older}]` : "summary";
  return () => {
    const place = line ? lines().find((one) => hrefOf(one) === url && !one.hidden) : chats;
    (place?.querySelector(kind) ?? document.getElementById("new")).focus({ preventScroll: true });
  };
}

// arrange adds what scripts know of the list: further pages, groups, marks and buttons.
function arrange() {
  for (const name of ["open", "archived"]) {
    const list = chats.querySelector(`[data-list=${name}]`);
    const known = new Set(lines().map(hrefOf));
    list?.append(...older[name].filter((line) => !known.has(hrefOf(line))));
    const more = chats.querySelector(`[data-older=${name}]`);
    if (more && name in next) {
      if (next[name]) more.href = next[name];
      else more.parentElement.remove();
    }
  }
  group(chats.querySelector("[data-list=open]"));
  for (const line of lines()) {
    const link = line.querySelector("a");
    line.querySelector(".line-more").hidden = false;
    line.hidden = removal.has(link.getAttribute("href"));
    if (link.getAttribute("href") === current()) link.setAttribute("aria-current", "page");
    mark(line);
  }
  for (const more of chats.querySelectorAll("[data-older]")) near.observe(more);
}

// group puts a heading in front of the chats of each day or month.
function group(list) {
  if (!list) return;
  document.getElementById("open-chats").classList.add("unseen");
  for (const heading of list.querySelectorAll(".day")) heading.remove();
  const today = midnight(new Date());
  let last = "";
  for (const line of [...list.children]) {
    const label = labelOf(new Date(line.querySelector("time").dateTime), today);
    if (label === last) continue;
    last = label;
    const heading = document.createElement("li");
    heading.className = "day";
    heading.textContent = label;
    line.before(heading);
  }
}

function labelOf(date, today) {
  const days = Math.round((today - midnight(date)) / 86_400_000); // a day with a change of the clock is an hour longer or shorter
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days <= 7) return "Previous 7 days";
  if (days <= 30) return "Previous 30 days";
  return date.toLocaleDateString(undefined, { month: "long", year: "numeric" });
}

const near = new IntersectionObserver((seen) => {
  for (const { isIntersecting, target } of seen) if (isIntersecting && target !== chats) load(target);
}, { root: chats, rootMargin: "300px 0px" });

// load adds the page that a link leads to.
async function load(link) {
  const name = link.dataset.older;
  if (loading[name]) return; // also where the first page has changed meanwhile, and with it the link
  const words = "Show older ones";
  loading[name] = true;
  link.ariaBusy = "true";
  try {
    const answer = await fetch(link.href, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(answer.statusText);
    const page = await answer.json();
    await released();
    const holder = document.createElement("template");
    holder.innerHTML = page.html;
    older[name].push(...holder.content.querySelectorAll("li"));
    next[name] = page.next ?? "";
    link.textContent = words;
    loading[name] = false;
    const now = chats.querySelector(`[data-older=${name}]`);
    if (now) near.unobserve(now); // so that arrange looks anew whether it is in sight
    arrange();
  } catch {
    link.textContent = "Older ones can't be loaded now. Try again";
  } finally {
    loading[name] = false;
    link.ariaBusy = "false";
  }
}

let menuLine = null;

function openMenu(line) {
  if (menuLine === line) {
    closeMenu(true);
    return;
  }
  menuLine = line;
  const archived = "archived" in line.dataset;
  const shown = { rename: !archived, pin: !archived, archive: !archived, reopen: archived, select: true, delete: true };
  for (const button of menu.querySelectorAll("[data-do]")) button.hidden = !shown[button.dataset.do];
  menu.querySelector("[data-do=pin] span").textContent = "pinned" in line.dataset ? "Unpin" : "Pin";
  menu.hidden = false;
  const place = line.querySelector(".line-more").getBoundingClientRect();
  menu.style.left = `${Math.min(place.left, innerWidth - menu.offsetWidth - 8)}px`;
  menu.style.top = `${Math.min(place.bottom + 4, innerHeight - menu.offsetHeight - 8)}px`;
  menu.querySelector("[data-do]:not([hidden])").focus();
}

function closeMenu(focus) {
  if (focus) menuLine?.querySelector(".line-more").focus();
  menuLine = null;
  menu.hidden = true;
}

function moveInMenu(event) {
  if (event.key === "Tab") closeMenu(true);
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  const buttons = [...menu.querySelectorAll("[data-do]:not([hidden])")];
  buttons[(buttons.indexOf(document.activeElement) + by + buttons.length) % buttons.length].focus();
}

async function perform(what, byKey) {
  const line = menuLine;
  closeMenu();
  switch (what) {
    case "rename": rename(line); return;
    case "pin": await pin(line); break;
    case "archive": await archive([line]); break;
    case "reopen": reopen(line); return;
    case "select": select([hrefOf(line)]); return;
    case "delete": remove([line]); break;
  }
  if (byKey && (document.activeElement === document.body || menu.contains(document.activeElement))) toast.focus(); // else somebody went on meanwhile
}

const target = (line) => ({ url: hrefOf(line), title: titleOf(line) });

function remove(list) {
  changes.forget(); // only what was done last can be undone
  removal.add(list.map(target));
}

function pin(line) {
  const pinned = "pinned" in line.dataset;
  const words = () => `“${titleOf(line)}” was ${pinned ? "unpinned" : "pinned"}.`;
  return changes.make([{ ...target(line), action: "pin", fields: { pinned: String(!pinned) } }], words);
}

function archive(list) {
  if (!list.length) return undefined;
  const words = (made) => (list.length === 1 ? `“${titleOf(list[0])}” was archived.` : `${made} chats were archived.`);
  const next = list.some((line) => hrefOf(line) === current()) ? "/" : "";
  return changes.make(list.map((line) => ({ ...target(line), action: "archive" })), words, next);
}

function reopen(line) {
  return changes.make([{ ...target(line), action: "reopen" }], () => "", `/chat/${line.dataset.name}`);
}

function rename(line) {
  const link = line.querySelector("a");
  const field = document.createElement("input");
  field.type = "text";
  field.maxLength = 80;
  field.value = titleOf(line);
  field.setAttribute("aria-label", "Title");
  link.hidden = true;
  link.after(field);
  field.select();
  field.focus();
  let done = false;
  const end = (save, byKey) => {
    if (done) return;
    done = true;
    const title = field.value.trim();
    field.remove();
    link.hidden = false;
    const before = target(line);
    if (save && title && title !== before.title) {
      changes.make([{ ...before, action: "rename", fields: { title } }], () => `“${before.title}” is now “${title}”.`);
    }
    if (byKey) link.focus();
    released().then(() => { if (missed !== null) showList(missed); }); // a press elsewhere ends it, too
  };
  field.addEventListener("blur", () => end(true));
  field.addEventListener("keydown", (event) => {
    if (isComposing(event) || (event.key !== "Enter" && event.key !== "Escape")) return;
    event.preventDefault();
    event.stopPropagation();
    end(event.key === "Enter", true);
  });
}

// select begins or ends the choice of several chats.
function select(urls) {
  selected = urls && new Set(urls);
  chats.classList.toggle("choosing", Boolean(selected));
  bar.hidden = !selected;
  for (const line of lines()) mark(line);
  if (!selected) return;
  bar.querySelector("span").textContent = `${selected.size} selected`;
}

function choose(line) {
  const url = hrefOf(line);
  if (!selected.delete(url)) selected.add(url);
  mark(line);
  bar.querySelector("span").textContent = `${selected.size} selected`;
}

function mark(line) {
  const link = line.querySelector("a");
  line.classList.toggle("chosen", Boolean(selected?.has(hrefOf(line))));
  if (selected) link.setAttribute("aria-selected", String(selected.has(hrefOf(line))));
  else link.removeAttribute("aria-selected");
}

const chosen = () => lines().filter((line) => selected?.has(hrefOf(line)) && !line.hidden);
