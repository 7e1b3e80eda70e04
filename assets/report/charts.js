// Draws the charts of the report with Observable Plot, from the JSON in #data. Colours are the page's CSS variables, so
// that light, dark and print need no redrawing; a chart is drawn anew only when its width changes.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const palette = ["var(--arm)", "var(--c2)", "var(--c3)", "var(--c4)"];
  const labels = new Map(data.arms.map((arm) => [arm.name, arm.label]));
  const colours = new Map();
  let next = 0;
  for (const arm of data.arms) colours.set(arm.name, arm.base ? "var(--base)" : palette[next++ % palette.length]);
  const percent = (value) => `${Math.round(value * 100)}%`;
  const milliseconds = (value) => `${Number((value * 1000).toPrecision(3))} ms`;
  const style = { background: "transparent", fontSize: "13px" };

  function theory(index, width) {
    const model = data.theory[index];
    const points = model.points.map(([k, s, low, high]) => ({ k, s, low, high }));
    const measured = model.measured.map(([k, s, low, high, name]) => ({ k, s, low: low ?? s, high: high ?? s, name }));
    return Plot.plot({
      width, height: Math.min(300, Math.max(220, width * 0.55)), marginLeft: 44, marginBottom: 40, style,
      x: { label: "speculative tokens per step, k", domain: [1, points.length], ticks: Math.min(8, points.length), tickFormat: "d" },
      y: { label: "speed-up", grid: true, tickFormat: (v) => `${v}×`, zero: false, nice: true, ticks: 5 },
      marks: [
        Plot.areaY(points, { x: "k", y1: "low", y2: "high", fill: "var(--arm)", fillOpacity: 0.16 }),
        Plot.ruleY([1], { stroke: "var(--muted)", strokeDasharray: "4,3" }),
        Plot.lineY(points, { x: "k", y: "s", stroke: "var(--arm)", strokeWidth: 2 }),
        Plot.ruleX(measured, { x: "k", y1: "low", y2: "high", stroke: "var(--fg)", strokeWidth: 2 }),
        Plot.dot(measured, { x: "k", y: "s", r: 5, fill: "var(--fg)", stroke: "var(--card)", strokeWidth: 1.5 }),
        Plot.text(measured, { x: "k", y: "s", text: (d) => `measured ${d.s.toFixed(2)}×`, dx: 10, dy: 12, textAnchor: "start", fill: "var(--fg)" }),
        Plot.tip(points, Plot.pointerX({
          x: "k", y: "s", fill: "var(--card)",
          title: (d) => `k = ${d.k}\nbelieved ${d.s.toFixed(2)}× (${d.low.toFixed(2)}–${d.high.toFixed(2)})`,
        })),
      ],
    });
  }

  function rows(index, field) {
    return data.cases[index].arms.flatMap((arm) => arm[field].map((value) => ({ arm: arm.name, value })));
  }

  function tpot(index, width) {
    const values = rows(index, "tpot");
    if (!values.length) return null;
    const arms = data.arms.map((arm) => arm.name).filter((name) => values.some((d) => d.arm === name));
    return Plot.plot({
      width, height: 52 + 34 * arms.length, marginLeft: 74, marginRight: 18, marginBottom: 40, style,
      x: { label: "milliseconds per token", zero: true, nice: true, ticks: Math.max(2, Math.floor(width / 70)), tickFormat: (v) => `${Number((v * 1000).toPrecision(3))}` },
      y: { label: null, domain: arms, tickFormat: (name) => labels.get(name).slice(0, 11), tickSize: 0 },
      marks: [
        Plot.ruleX([0], { stroke: "var(--line)" }),
        Plot.dot(values, { x: "value", y: "arm", r: 4, fill: (d) => colours.get(d.arm), fillOpacity: 0.4 }),
        Plot.tickX(values, Plot.groupY({ x: "median" }, { x: "value", y: "arm", stroke: (d) => colours.get(d.arm), strokeWidth: 2.5 })),
        Plot.tip(values, Plot.pointer({ x: "value", y: "arm", fill: "var(--card)", title: (d) => `${labels.get(d.arm)}\n${milliseconds(d.value)} per token` })),
      ],
    });
  }

  const mostShare = Math.max(0, ...data.cases.flatMap((c) => c.arms.flatMap((arm) => (data.arms.find((a) => a.name === arm.name).base ? [] : arm.steps.map(([, share]) => share)))));

  function steps(index, width) {
    const values = data.cases[index].arms
      .filter((arm) => !data.arms.find((known) => known.name === arm.name).base)
      .flatMap((arm) => arm.steps.map(([tokens, share]) => ({ arm: arm.name, tokens, share })));
    if (!values.length) return null;
    const most = Math.max(...values.map((d) => d.tokens));
    const domain = Array.from({ length: most }, (_, i) => i + 1);
    return Plot.plot({
      width, height: 170, marginLeft: 44, marginBottom: 40, style,
      x: { label: "tokens in a step", domain, tickSize: 0 },
      y: { label: null, domain: [0, mostShare], tickFormat: percent, ticks: 4, grid: true },
      marks: [
        Plot.barY(values, { x: "tokens", y: "share", fill: (d) => colours.get(d.arm), fillOpacity: 0.85, mixBlendMode: "normal" }),
        Plot.ruleY([0], { stroke: "var(--muted)" }),
        Plot.tip(values, Plot.pointerX({ x: "tokens", y: "share", fill: "var(--card)", title: (d) => `${labels.get(d.arm)}\n${d.tokens} tokens: ${(d.share * 100).toFixed(1)}% of steps` })),
      ],
    });
  }

  function positions(index, width) {
    const values = data.cases[index].arms.flatMap((arm) => arm.positions.map((rate, i) => ({ arm: arm.name, position: i + 1, rate })));
    if (!values.length) return null;
    return Plot.plot({
      width, height: 170, marginLeft: 44, marginBottom: 40, style,
      x: { label: "position of the draft token", ticks: Math.min(8, values.length), tickFormat: "d" },
      y: { label: null, domain: [0, 1], tickFormat: percent, ticks: 4, grid: true },
      marks: [
        Plot.lineY(values, { x: "position", y: "rate", z: "arm", stroke: (d) => colours.get(d.arm), strokeWidth: 2 }),
        Plot.dot(values, { x: "position", y: "rate", r: 3.5, fill: (d) => colours.get(d.arm) }),
        Plot.tip(values, Plot.pointer({ x: "position", y: "rate", fill: "var(--card)", title: (d) => `${labels.get(d.arm)}\nposition ${d.position}: ${percent(d.rate)}` })),
      ],
    });
  }

  function trend(index, width) {
    const values = data.trend[index].map(([at, gain, run]) => ({ at: new Date(at), gain, run }));
    return Plot.plot({
      width, height: 230, marginLeft: 44, marginRight: 24, style,
      x: { label: null, type: "utc", nice: true, ticks: Math.max(2, Math.floor(width / 110)) },
      y: { label: "speed-up", grid: true, tickFormat: (v) => `${v}×`, ticks: 5, nice: true },
      marks: [
        Plot.ruleY([1], { stroke: "var(--muted)", strokeDasharray: "4,3" }),
        Plot.lineY(values, { x: "at", y: "gain", stroke: "var(--arm)", strokeWidth: 2 }),
        Plot.dot(values, { x: "at", y: "gain", r: 4, fill: "var(--arm)" }),
        Plot.tip(values, Plot.pointerX({ x: "at", y: "gain", fill: "var(--card)", title: (d) => `${d.run}\n${d.gain.toFixed(2)}×` })),
      ],
    });
  }

  const kinds = { theory, tpot, steps, positions, trend };
  const observer = new ResizeObserver((entries) => {
    for (const entry of entries) draw(entry.target, Math.floor(entry.contentRect.width));
  });

  function draw(target, width) {
    if (width < 40 || target.dataset.width === String(width)) return;
    target.dataset.width = String(width);
    const figure = target.closest("figure");
    const chart = kinds[figure.dataset.chart](Number(figure.dataset.index), width);
    const shown = chart ?? Object.assign(document.createElement("p"), { className: "none", textContent: "No values to show here." });
    if (chart) chart.setAttribute("aria-hidden", "true");
    target.replaceChildren(shown);
  }

  for (const target of document.querySelectorAll("figure.chart .plot")) observer.observe(target);
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((item) => { item.open = true; }));
})();
