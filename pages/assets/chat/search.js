// Search as one types, in the sidebar and on the page of results, and more results as the
// reader comes near the end of those that are there.

import { released } from "../press.js";
import { isComposing } from "./keys.js";

const pause = 150; // ms after a key

export function startSearch() {
  const side = document.getElementById("found-chats");
  const list = document.getElementById("chats");
  asOneTypes(document.querySelector(".side .find input"), side, (html, words) => {
    list.hidden = Boolean(words);
    side.hidden = !words;
    side.innerHTML = html ? `<ol class="found">${html}</ol>` : "";
    if (words && !html) side.append(nothing(words));
  });
  const page = document.getElementById("results");
  if (!page) return;
  const field = document.querySelector(".find-large input");
  asOneTypes(field, page, (html, words, next) => {
    page.innerHTML = html ? `<ol class="found">${html}</ol>` : "";
    if (words && !html) page.append(nothing(words));
    if (next) page.append(more(next));
    history.replaceState(null, "", words ? `/search?q=${encodeURIComponent(words)}` : "/search");
    watch(page);
  });
  watch(page);
}

// asOneTypes searches for what is written in a field, and calls show, which fills a box with the
// results. A result that has the focus keeps it if it is still found.
function asOneTypes(field, box, show) {
  let timer;
  let asked = 0;
  const ask = async () => {
    const words = field.value.trim();
    const n = ++asked;
    if (!words) {
      show("", "");
      announce("");
      return;
    }
    try {
      const answer = await fetch(`/search?q=${encodeURIComponent(words)}`, { headers: { Accept: "application/json" } });
      const { html, next } = await answer.json();
      await released();
      if (!answer.ok || n !== asked) return;
      const held = box.contains(document.activeElement) ? document.activeElement.href : "";
      show(html.trim(), words, next);
      if (held) ([...box.querySelectorAll("a")].find((link) => link.href === held) ?? field).focus({ preventScroll: true });
      announce(words, html, next);
    } catch { /* the server is away: Enter asks for the page */ }
  };
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(ask, pause);
  });
  field.addEventListener("keydown", (event) => {
    if (isComposing(event) || event.key !== "Escape" || !field.value) return;
    event.preventDefault();
    field.value = "";
    ask();
  });
}

function nothing(words) {
  const line = document.createElement("p");
  line.className = "none";
  line.textContent = nothingFor(words);
  return line;
}

const nothingFor = (words) => `Nothing was found for “${words}”.`;

// announce tells screen readers how many chats were found.
function announce(words, html = "", next = "") {
  const found = document.createElement("template");
  found.innerHTML = html;
  const n = found.content.querySelectorAll("li").length;
  let text = n === 1 ? "1 chat was found." : `${n} chats were found.`;
  if (next) text = `More than ${text}`;
  if (n === 0) text = nothingFor(words);
  document.getElementById("found-count").textContent = words ? text : "";
}

function more(address) {
  const line = document.createElement("p");
  const link = document.createElement("a");
  link.className = "button";
  link.rel = "next";
  link.href = address;
  link.textContent = "Show more";
  line.append(link);
  return line;
}

const near = new IntersectionObserver((seen) => {
  for (const { isIntersecting, target } of seen) if (isIntersecting) add(target);
}, { rootMargin: "300px 0px" });

function watch(page) {
  const link = page.querySelector("a[rel=next]");
  if (link) near.observe(link);
}

async function add(link) {
  near.unobserve(link);
  try {
    const answer = await fetch(link.href, { headers: { Accept: "application/json" } });
    const { html, next } = await answer.json();
    if (!answer.ok || !link.isConnected) return;
    const page = document.getElementById("results");
    page.querySelector(".found").insertAdjacentHTML("beforeend", html);
    if (next) link.href = next;
    else link.parentElement.remove();
    watch(page);
  } catch { /* the link stays */ }
}
