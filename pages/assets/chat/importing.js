// Shows how far an import is, which goes on in the gateway whether this page is open or not.

import { released } from "../press.js";

const interval = 1000; // milliseconds

export function followImport(status) {
  if (status?.querySelector("[data-under-way]")) setTimeout(look, interval, status);
}

async function look(status) {
  const answer = await fetch("/import", { headers: { Accept: "application/json" } }).catch(() => null);
  if (!answer?.ok) { // the gateway restarts, or the sign-in ended
    setTimeout(look, interval, status);
    return;
  }
  const { html } = await answer.json();
  await released();
  const fresh = document.createElement("div");
  fresh.innerHTML = html;
  if (!fresh.querySelector("[data-under-way]")) {
    location.replace("/import"); // with the new chats in the list
    return;
  }
  if (fresh.innerHTML !== status.innerHTML && !status.contains(document.activeElement)) status.replaceChildren(...fresh.childNodes);
  setTimeout(look, interval, status);
}
