// Pictures and files that go along with a message: chosen, pasted or dropped. What the
// gateway would refuse is refused when it is picked.

const mebibyte = 1024 * 1024;

// unreadable returns what is said of files that the browser can't read any more, "" if it can
// read all. To a request that has such a file the gateway seems to be away.
export async function unreadable(files) {
  for (const file of files) {
    try { await file.slice(0, 1).arrayBuffer(); } catch {
      return `“${file.name}” can't be read. A folder can't be sent, and a file that was moved or changed has to be added again.`;
    }
  }
  return "";
}

export function startFiles(form, field, trouble) {
  const input = document.getElementById("files");
  const list = document.getElementById("picked");
  const button = document.getElementById("attach");
  const most = Number(input.dataset.most);
  const mostBytes = Number(input.dataset.mostBytes);
  const mostTogether = Number(input.dataset.mostTogether) - mebibyte; // which leaves room for the text
  let picked = [];

  input.hidden = true;
  button.hidden = false;
  button.addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    add(input.files);
    input.value = "";
    field.focus();
  });
  field.addEventListener("paste", (event) => {
    const { files } = event.clipboardData;
    const text = event.clipboardData.getData("text/plain");
    if (files.length && !text) {
      event.preventDefault();
      add(files);
    } else if (field.value.length + text.length > field.maxLength) { // the browser would cut it without a word
      event.preventDefault();
      add([new File([text], "pasted.txt", { type: "text/plain" })]);
    }
  });

  let depth = 0; // of nested elements that are being dragged over
  const over = (n) => form.classList.toggle("dropping", (depth = Math.max(0, depth + n)) > 0);
  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragenter", (event) => { if (carriesFiles(event)) { event.preventDefault(); over(1); } });
  addEventListener("dragleave", (event) => { if (carriesFiles(event)) over(-1); });
  addEventListener("dragover", (event) => { if (carriesFiles(event)) event.preventDefault(); });
  addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    depth = 0;
    over(0);
    add(event.dataTransfer.files);
    field.focus();
  });

  function add(files) {
    trouble("");
    for (const file of files) {
      if (!file.size) trouble(`${file.name || "The file"} is empty.`);
      else if (picked.length >= most) trouble(`At most ${most} files go with one message.`);
      else if (file.size > mostBytes) trouble(`${file.name} is too large: a file may have ${mostBytes / mebibyte} MiB.`);
      else if (picked.reduce((sum, one) => sum + one.file.size, file.size) > mostTogether) trouble(`${file.name} is too much beside the others: together they may have ${mostTogether / mebibyte} MiB.`);
      else {
        if (file.type.startsWith("image/") && "blind" in input.dataset) trouble(`The model can't see pictures: of ${file.name || "this one"} it is told only the name.`);
        picked.push({ file, url: file.type.startsWith("image/") ? URL.createObjectURL(file) : "" });
      }
    }
    show();
  }

  function drop(some) {
    for (const one of some) URL.revokeObjectURL(one.url);
    picked = picked.filter((other) => !some.includes(other));
    show();
  }

  function show() {
    list.replaceChildren(...picked.map((one) => {
      const item = document.createElement("li");
      if (one.url) {
        const picture = document.createElement("img");
        picture.src = one.url;
        picture.alt = "";
        item.append(picture);
      }
      item.append(one.file.name || "picture");
      const remove = document.createElement("button");
      remove.type = "button";
      remove.className = "quiet";
      remove.setAttribute("aria-label", `Leave out ${one.file.name}`);
      remove.textContent = "×";
      remove.addEventListener("click", () => { drop([one]); field.focus(); });
      item.append(remove);
      return item;
    }));
    field.dispatchEvent(new Event("input"));
  }

  return { picked: () => [...picked], add, drop };
}
