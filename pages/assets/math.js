// Typesets formulas. KaTeX is loaded when a page shows the first one; until then, and
// where a formula has a mistake, it stands there as it was written.

const base = new URL("vendor/katex/", import.meta.url);
let katex;

function load() {
  katex ??= new Promise((resolve, reject) => {
    const styles = document.createElement("link");
    styles.rel = "stylesheet";
    styles.href = new URL("katex.css", base);
    styles.onload = () => import(new URL("katex.js", base)).then((module) => resolve(module.default), reject);
    styles.onerror = reject;
    document.head.append(styles);
  });
  return katex;
}

const longest = 2000; // characters of a formula that are typeset

export async function typeset(element) {
  const formulas = [...element.querySelectorAll(".math[data-tex]")];
  if (element.matches?.(".math[data-tex]")) formulas.push(element);
  if (!formulas.length) return;
  let library;
  try {
    library = await load();
  } catch {
    katex = undefined; // tried again with the next formula
    return;
  }
  for (const formula of formulas) {
    const { tex } = formula.dataset;
    if (tex === undefined || tex.length > longest) continue;
    delete formula.dataset.tex; // once
    const source = formula.textContent;
    try {
      library.render(tex, formula, { displayMode: formula.classList.contains("display"), maxExpand: 200, maxSize: 20, strict: "ignore", trust: false });
      if (formula.classList.contains("display")) formula.tabIndex = 0; // it may be wider than the page
      formula.dispatchEvent(new Event("load")); // it has got its height, as a picture has then
    } catch {
      formula.textContent = source;
    }
  }
}
