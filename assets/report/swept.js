// Lines over what was swept (settings, lengths of answers, k) and over the requests of a run. `charts.js` calls it.
const sweptCharts = (shared) => {
  "use strict";
  const { data, told, style } = shared;
  const figure = { "×": (v) => `${v.toFixed(2)}×`, "": (v) => `${Number(v.toPrecision(3))}`, s: (v) => (Math.abs(v) < 1 ? `${Number((v * 1000).toPrecision(3))} ms` : `${Number(v.toPrecision(3))} s`) };

  function swept(index, width) {
    const { over, unit, log, lines } = data.swept[index];
    const show = figure[unit];
    const points = lines.flatMap(({ name, colour, points: own }) => own.map(([at, value, low, high, late]) => ({ name, colour, at, value, low, high, late })));
    const sure = points.filter((d) => d.low !== null && d.high !== null);
    const places = [...new Set(points.map((d) => d.at))].sort((a, b) => a - b);
    const said = (d) => `${d.name}, ${over} ${Number(d.at.toPrecision(4))}: ${show(d.value)}${d.low === null ? "" : ` (${show(d.low)} to ${show(d.high)})`}${d.late ? ", doubtful" : ""}`;
    const few = places.length <= 16;
    return told(points.map(said), {
      width, height: Math.min(280, Math.max(200, width * 0.5)), marginLeft: 56, marginRight: 24, marginBottom: 40, marginTop: 16, style,
      x: { label: over, ...(few ? { ticks: places, tickFormat: (v) => `${Number(v.toPrecision(3))}` } : { ticks: 6 }), ...(log ? { type: "log", base: 2 } : {}) },
      y: { label: null, grid: true, nice: true, ticks: 5, zero: unit !== "×", tickFormat: show },
      marks: [
        ...(unit === "×" ? [Plot.ruleY([1], { stroke: "var(--fg)", strokeDasharray: "4,3" })] : []),
        Plot.ruleX(sure, { x: "at", y1: "low", y2: "high", stroke: "colour", strokeWidth: 1.6, strokeOpacity: 0.6 }),
        Plot.line(points, { x: "at", y: "value", z: "name", stroke: "colour", strokeWidth: few ? 2 : 1.4 }),
        ...(few ? [Plot.dot(points, { x: "at", y: "value", r: 4, fill: (d) => (d.late ? "var(--card)" : d.colour), stroke: "colour", strokeWidth: 1.6 })] : []),
        Plot.tip(points, Plot.pointer({ x: "at", y: "value", fill: "var(--card)", title: said })),
      ],
      color: { type: "identity" },
    });
  }

  return { swept };
};
