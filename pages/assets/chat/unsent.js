// Messages that the gateway has not taken yet. They are kept in the browser's database, with
// their files, from before they are sent on, so that a reload in between loses none. Those
// that could not be sent are sent in order when the gateway can be reached again. Each has an
// id by which the gateway takes it once, however often it is sent.

const retryAfter = 10_000; // ms between attempts while messages wait
const name = "parley";
const store = "unsent";

let opened;

function open() {
  opened ??= new Promise((resolve, reject) => {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => request.result.createObjectStore(store, { keyPath: "n", autoIncrement: true });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  opened.catch(() => { opened = undefined; });
  return opened;
}

async function query(mode, ask) {
  const database = await open();
  return new Promise((resolve, reject) => {
    const transaction = database.transaction(store, mode);
    const request = ask(transaction.objectStore(store));
    transaction.oncomplete = () => resolve(request.result);
    transaction.onabort = () => reject(transaction.error);
  });
}

// post sends a form's data. It returns what went wrong, in words, "" if nothing did, and
// whether another attempt may succeed without a change of the message.
export async function post(url, data) {
  let answer;
  try {
    answer = await fetch(url, { method: "POST", body: data, headers: { Accept: "application/json" } });
  } catch {
    return { why: "The gateway can't be reached.", later: true };
  }
  if (answer.ok) return { why: "", later: false };
  const later = [401, 429, 502, 503, 504].includes(answer.status); // 401: the page is about to ask for a sign-in
  try {
    return { why: (await answer.json()).detail || `The gateway refused it (${answer.status}).`, later };
  } catch {
    return { why: `The gateway refused it (${answer.status}).`, later };
  }
}

// formOf returns a message as the gateway takes it.
export function formOf({ id, text, seq, files }) {
  const data = new FormData();
  data.set("text", text);
  data.set("id", id);
  if (seq) data.set("seq", seq);
  for (const file of files ?? []) data.append("file", file, file.name || "picture.png");
  return data;
}

// startUnsent shows the unsent messages of a chat below its others, and sends those of all
// chats. restore puts a message back into the field.
export function startUnsent(chat, restore) {
  const list = document.getElementById("unsent");
  let busy = false;
  let timer;
  let shown = "";
  const underWay = new Set(); // rows of messages that this page is sending for the first time

  const unsent = async () => (await query("readonly", (rows) => rows.getAll())).filter(({ n }) => !underWay.has(n));

  async function show() {
    let messages = [];
    try { messages = await unsent(); } catch { /* storage may be forbidden */ }
    const here = messages.filter((message) => message.chat === chat);
    const now = JSON.stringify(here.map(({ n, why }) => [n, why]));
    if (now !== shown) {
      const focused = list.contains(document.activeElement);
      list.replaceChildren(...here.map(element));
      if (focused) document.getElementById("text-field").focus();
    }
    shown = now;
    clearTimeout(timer);
    if (messages.some((message) => !message.why)) timer = setTimeout(flush, retryAfter);
    return messages;
  }

  function element(message) {
    const item = document.getElementById("unsent-entry").content.firstElementChild.cloneNode(true);
    const names = (message.files ?? []).map((file) => `📎 ${file.name || "picture"}`);
    item.querySelector(".bubble").textContent = [message.text, ...names].filter(Boolean).join("\n");
    if (message.why) item.querySelector("[data-why]").textContent = message.why;
    item.classList.toggle("refused", Boolean(message.why));
    item.querySelector("[data-again]").addEventListener("click", () => flush(true));
    item.querySelector("[data-restore]").addEventListener("click", async () => {
      await query("readwrite", (rows) => rows.delete(message.n));
      restore(message);
      show();
    });
    return item;
  }

  // flush sends what waits, in order, until the gateway can't be reached. A message that the
  // gateway has refused is sent again only when somebody says so.
  async function flush(all) {
    if (busy) return;
    busy = true;
    try {
      for (const message of await unsent()) {
        if (message.why && all !== true) continue;
        const { why, later } = await post(`${message.chat}/${message.seq ? "edit" : "messages"}`, formOf(message));
        if (why && later) break;
        if (why) {
          await query("readwrite", (rows) => rows.put({ ...message, why }));
          continue;
        }
        await query("readwrite", (rows) => rows.delete(message.n));
      }
    } catch { /* storage may be forbidden */ }
    busy = false;
    await show();
  }

  addEventListener("online", flush);
  addEventListener("connected", flush); // the stream of the chat is there again
  flush();

  return {
    waiting: () => list.querySelector(":scope > :not(.refused)") !== null,
    // begin keeps a message that is about to be sent, and returns its row, undefined where
    // the browser forbids storage.
    async begin(message) {
      try {
        const row = await query("readwrite", (rows) => rows.add({ ...message, chat }));
        underWay.add(row);
        return row;
      } catch { return undefined; }
    },
    // end says that an attempt to send the message of a row is over, and whether another one
    // follows.
    async end(row, later) {
      if (row === undefined) return;
      if (!later) await query("readwrite", (rows) => rows.delete(row)).catch(() => {}); // a repeat is taken once
      underWay.delete(row);
      await show();
      if (later) document.getElementById("said").textContent = list.lastElementChild?.querySelector("[data-why]").textContent ?? "";
    },
    flush,
  };
}
