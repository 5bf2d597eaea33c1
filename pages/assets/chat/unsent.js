// Messages that could not be sent. They are kept in the browser's database, with their
// files, and sent in order when the gateway can be reached again. Each has an id by which
// the gateway takes it once, however often it is sent.

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
  const later = [502, 503, 504].includes(answer.status);
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

  async function show() {
    let messages = [];
    try { messages = await query("readonly", (rows) => rows.getAll()); } catch { /* storage may be forbidden */ }
    list.replaceChildren(...messages.filter((message) => message.chat === chat).map(element));
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
      for (const message of await query("readonly", (rows) => rows.getAll())) {
        if (message.why && all !== true) continue;
        const { why, later } = await post(`${message.chat}/${message.seq ? "edit" : "messages"}`, formOf(message));
        if (why && later) break;
        if (why) {
          await query("readwrite", (rows) => rows.put({ ...message, why }));
          continue;
        }
        await query("readwrite", (rows) => rows.delete(message.n));
        if (message.chat === chat) dispatchEvent(new Event("sent"));
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
    async keep(message) {
      await query("readwrite", (rows) => rows.add({ ...message, chat }));
      await show();
    },
    flush,
  };
}
