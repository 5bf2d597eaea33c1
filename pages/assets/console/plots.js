// Draws the plots of the overview from the numbers in its table.
import uPlot from "../vendor/uplot/uplot.js";

const table = document.getElementById("points");
const plots = document.getElementById("plots");
const names = [...table.tHead.rows[0].cells].map((cell) => cell.dataset.name);
const rows = [...table.tBodies[0].rows];
const times = rows.map((row) => Number(row.dataset.at));
const column = (name) => rows.map((row) => {
  const value = row.cells[names.indexOf(name)].dataset.v;
  return value === "" ? null : Number(value);
});

const series = {
  messages: { label: "messages", color: "--plot-1" },
  runs: { label: "runs", color: "--plot-2" },
  prompt: { label: "in", color: "--plot-1" },
  completion: { label: "out", color: "--plot-2" },
  p50: { label: "median", color: "--plot-1" },
  p95: { label: "95th percentile", color: "--plot-2" },
  failed: { label: "errors", color: "--plot-3" },
};

// color resolves a custom property to what a canvas takes: light-dark() is
// worked out only for a real property of an element.
const probe = document.createElement("i");
probe.hidden = true;
plots.append(probe);
const color = (name) => {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
};

const short = (value) => value == null ? "–" :
  Math.abs(value) >= 1e6 ? `${+(value / 1e6).toFixed(1)}M` : Math.abs(value) >= 1e3 ? `${+(value / 1e3).toFixed(1)}k` : `${+value.toFixed(2)}`;

const isShort = table.dataset.range === "hour" || table.dataset.range === "day";
const clock = new Intl.DateTimeFormat(undefined, isShort ? { hour: "2-digit", minute: "2-digit" } : { day: "numeric", month: "short" });
const moment = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

const draw = (place) => {
  const shown = place.dataset.plot.split(" ");
  const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  return new uPlot({
    width: place.clientWidth, height: 170, padding: [12, 30, 0, 0],
    cursor: { drag: { x: false, y: false }, sync: { key: "overview" } },
    legend: { live: true },
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [
      { ...axis, size: 30, grid: { show: false }, values: (_, list) => list.map((at) => clock.format(at * 1000)), space: 70 },
      { ...axis, size: 46, values: (_, list) => list.map(short), space: 28, incrs: shown[0].startsWith("p") && shown[0] !== "prompt" ? undefined : [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 1e8, 1e9] },
    ],
    series: [
      { label: "", value: (_, at) => at == null ? "" : moment.format(at * 1000) },
      ...shown.map((name, n) => ({
        label: series[name].label, stroke: color(series[name].color), width: 2,
        fill: n === 0 ? color(`${series[name].color}-fill`) : undefined,
        points: { show: column(name).filter((value) => value !== null).length < 2, size: 7 }, spanGaps: true, value: (_, value) => short(value),
      })),
    ],
  }, [times, ...shown.map(column)], place);
};

plots.hidden = false;
let drawn = [];
const redraw = () => {
  for (const plot of drawn) plot.destroy();
  drawn = [...plots.querySelectorAll("[data-plot]")].map(draw);
};
redraw();

let width = innerWidth;
addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; redraw(); } });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
