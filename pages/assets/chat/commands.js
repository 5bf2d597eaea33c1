// Completes commands: a list above the text field shows the commands that begin with what
// is typed.

export function startCompletion(field) {
  const list = document.getElementById("completions");
  const options = [...list.children];
  let shown = [];
  let chosen = 0;

  const close = () => {
    shown = [];
    list.hidden = true;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  };

  const choose = (n) => {
    chosen = (n + shown.length) % shown.length;
    shown.forEach((option, i) => option.setAttribute("aria-selected", String(i === chosen)));
    shown[chosen].scrollIntoView({ block: "nearest" });
    field.setAttribute("aria-activedescendant", shown[chosen].id);
  };

  const look = () => {
    const written = field.value;
    if (!/^\/[a-z]*$/i.test(written)) {
      close();
      return;
    }
    shown = options.filter((option) => option.dataset.name.startsWith(written.toLowerCase()));
    for (const option of options) option.hidden = !shown.includes(option);
    if (!shown.length || (shown.length === 1 && shown[0].dataset.name === written)) {
      close();
      return;
    }
    list.hidden = false;
    field.setAttribute("aria-expanded", "true");
    choose(0);
  };

  const take = (option) => {
    field.value = option.dataset.name + (option.dataset.takes === "0" ? "" : " ");
    close();
    field.dispatchEvent(new Event("input"));
    field.focus();
  };

  field.addEventListener("input", look);
  field.addEventListener("blur", () => setTimeout(() => { // a click on the list first gives the focus back
    if (document.activeElement !== field) close();
  }, 150));
  list.addEventListener("mousedown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => {
    const option = event.target.closest("[role=option]");
    if (option) take(option);
  });

  // takes handles a keydown event, and returns whether the list has used the key.
  return {
    takes(event) {
      if (!shown.length) return false;
      switch (event.key) {
        case "ArrowDown": choose(chosen + 1); break;
        case "ArrowUp": choose(chosen - 1); break;
        case "Tab": take(shown[chosen]); break;
        case "Enter":
          if (shown[chosen].dataset.name === field.value.trim()) return false;
          take(shown[chosen]);
          break;
        case "Escape": close(); break;
        default: return false;
      }
      event.preventDefault();
      event.stopPropagation();
      return true;
    },
  };
}
