// Draws the charts of the report with Observable Plot, from the JSON in #data. Colours are the page's CSS variables, so
// that light, dark and print need no redrawing; a chart is drawn anew only when its width changes.
(() => {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const labels = new Map(data.arms.map((arm) => [arm.name, arm.label]));
  const colours = new Map(data.arms.map((arm) => [arm.name, arm.colour]));
  const percent = (value) => `${Math.round(value * 100)}%`;
  const milliseconds = (value) => `${Number((value * 1000).toPrecision(3))} ms`;
  // A chart and what the arrow keys read out of it, value by value.
  const told = (readings, options) => Object.assign(Plot.plot(options), { readings });
  const style = { background: "transparent", fontSize: "13px" };

  function theory(index, width) {
    const model = data.theory[index];
    const points = model.points.map(([k, s, low, high]) => ({ k, s, low, high }));
    const measured = model.measured.map(([k, s, low, high, name]) => ({ k, s, low: low ?? s, high: high ?? s, name }));
    // Drafts stand side by side: one axis for all of a group, so that their heights compare.
    const beside = data.theory.filter((each) => each.group === model.group).flatMap((each) => [...each.points, ...each.measured]);
    const reach = d3.extent([1, ...beside.flatMap(([, s, low, high]) => [s, low ?? s, high ?? s])]);
    return told(points.map((d) => `k = ${d.k}: believed ${d.s.toFixed(2)}×`).concat(measured.map((d) => `k = ${d.k}: measured ${d.s.toFixed(2)}×`)), {
      width, height: Math.min(300, Math.max(220, width * 0.55)), marginLeft: 44, marginBottom: 40, style,
      x: { label: "speculative tokens per step, k", domain: [points[0].k, points.at(-1).k], ticks: Math.min(8, points.length), tickFormat: "d" },
      y: { label: "speed-up", grid: true, tickFormat: (v) => `${v}×`, domain: reach, nice: true, ticks: 5 },
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

  function forecast(index, width) {
    const { drafts, measured } = data.forecast[index];
    const palette = ["var(--arm)", "var(--c2)", "var(--c3)", "var(--c4)"];
    const colour = new Map(drafts.map(([name], i) => [name, palette[i % palette.length]]));
    const points = drafts.flatMap(([draft, at]) => at.map(([k, tokens, low, high]) => ({ draft, k, tokens, low, high })));
    const dots = measured.map(([k, tokens, name]) => ({ k, tokens, name }));
    const said = (d) => `${d.draft}, k = ${d.k}: ${d.tokens.toFixed(2)} tokens per step (${d.low.toFixed(2)}–${d.high.toFixed(2)})`;
    const height = Math.min(300, Math.max(220, width * 0.55)), marginTop = 24, marginBottom = 40, gap = 16;
    const [, top] = d3.nice(1, Math.max(2, ...points.map((d) => d.tokens), ...dots.map((d) => d.tokens)), 5);
    const beyond = points.filter((d) => d.high > top);
    // Names at the ends of the lines, each `gap` pixels or more below the one before, and none below the axis.
    const ends = drafts.map(([draft, at]) => ({ draft, k: at.at(-1)[0], tokens: at.at(-1)[1] })).sort((a, b) => b.tokens - a.tokens);
    const place = ends.map((d) => marginTop + (height - marginTop - marginBottom) * (top - d.tokens) / (top - 1));
    const named = [...place];
    for (let i = 1; i < named.length; i++) named[i] = Math.max(named[i], named[i - 1] + gap);
    for (let i = named.length - 1, most = height - marginBottom; i >= 0; i--, most -= gap) named[i] = Math.min(named[i], most);
    return told(points.map(said).concat(dots.map((d) => `${d.name} measured ${d.tokens.toFixed(2)} at k = ${d.k}`)), {
      width, height, marginLeft: 44, marginTop, marginBottom, style,
      x: { label: "speculative tokens per step, k", ticks: 8, tickFormat: "d" },
      y: { label: "tokens per step", grid: true, domain: [1, top], clamp: true, ticks: 5 },
      marks: [
        Plot.areaY(points, { x: "k", y1: "low", y2: "high", z: "draft", fill: (d) => colour.get(d.draft), fillOpacity: 0.14 }),
        Plot.lineY(points, { x: "k", y: "tokens", z: "draft", stroke: (d) => colour.get(d.draft), strokeWidth: 2 }),
        Plot.text(beyond, { x: "k", y: top, text: () => "▲", ariaLabel: "beyond", dy: 4, fontSize: 9, fill: (d) => colour.get(d.draft) }),
        ...ends.map((d, i) => Plot.text([d], { x: "k", y: "tokens", text: () => d.draft.split("/").at(-1), textAnchor: "end", dy: named[i] - place[i] - 8, fill: "var(--fg)", stroke: "var(--card)", strokeWidth: 3 })),
        Plot.dot(dots, { x: "k", y: "tokens", r: 5, fill: "var(--fg)", stroke: "var(--card)", strokeWidth: 1.5 }),
        Plot.tip(points, Plot.pointer({ x: "k", y: "tokens", fill: "var(--card)", title: said })),
      ],
    });
  }

  function share(index, width, metric) {
    const arms = data.cases[index].arms.filter((arm) => arm[metric].length);
    if (!arms.length) return null;
    const most = Math.max(...arms.flatMap((arm) => arm[metric]));
    const scale = most < 1 ? 1000 : 1;
    const steps = arms.flatMap((arm) => arm[metric].map((value, i) => ({ arm: arm.name, value: value * scale, share: (i + 1) / arm[metric].length })));
    const lines = arms.flatMap((arm) => [{ arm: arm.name, value: arm[metric][0] * scale, share: 0 }, ...steps.filter((d) => d.arm === arm.name)]);
    const said = (d) => `${labels.get(d.arm)}: ${percent(d.share)} within ${Number(d.value.toPrecision(3))} ${scale === 1 ? "s" : "ms"}`;
    return told(steps.map(said), {
      width, height: 190, marginLeft: 44, marginRight: 20, marginBottom: 40, style,
      x: { label: scale === 1 ? "seconds" : "milliseconds", nice: true, ticks: Math.max(2, Math.floor(width / 80)) },
      y: { label: null, domain: [0, 1], tickFormat: percent, ticks: 4, grid: true },
      marks: [
        Plot.line(lines, { x: "value", y: "share", z: "arm", stroke: (d) => colours.get(d.arm), strokeWidth: 2, curve: "step-after" }),
        Plot.dot(steps, { x: "value", y: "share", r: 2.5, fill: (d) => colours.get(d.arm) }),
        Plot.tip(steps, Plot.pointer({ x: "value", y: "share", fill: "var(--card)", title: said })),
      ],
    });
  }

  function timeline(index, width) {
    const began = Math.min(...data.timeline.map((each) => each.began));
    const all = data.timeline.flatMap((each) => each.sent.map(([at, took, failed]) => ({ arm: each.arm, case: each.case, at: each.began - began + at, took, failed })));
    if (!all.length) return null;
    const last = Math.max(...all.map((d) => d.at));
    const [unit, per] = last > 7200 ? ["hours", 3600] : last > 180 ? ["minutes", 60] : ["seconds", 1];
    for (const d of all) d.x = d.at / per;
    const parts = new Map();
    for (const each of data.timeline) {
      const [round, process] = each.part;
      const at = (each.began - began) / per;
      const key = `${round}/${process}`;
      if (!parts.has(key) || parts.get(key).at > at) parts.set(key, { at, name: process ? `round ${round + 1}, process ${process + 1}` : `round ${round + 1}` });
    }
    const marks = [...parts.values()].filter((d) => d.at > 0);
    const arms = data.arms.map((arm) => arm.name).filter((name) => all.some((d) => d.arm === name));
    const many = arms.length > 6;
    const place = many ? { y: "arm" } : { y: "took", fy: "arm" };
    const fine = all.filter((d) => !d.failed), bad = all.filter((d) => d.failed);
    const short = (name) => labels.get(name).slice(0, 11);
    const said = (d) => `${labels.get(d.arm)}, ${d.case}: after ${Number(d.x.toPrecision(3))} ${unit}, ${d.failed ? `failed (${d.failed}) after ` : ""}${milliseconds(d.took)}`;
    return told(all.sort((a, b) => a.at - b.at).map(said), {
      width, height: many ? 70 + 20 * arms.length : 70 + 120 * arms.length, marginLeft: many ? 84 : 58, marginRight: many ? 20 : 70, marginTop: 24, marginBottom: 40, style,
      x: { label: `${unit} since the first request`, nice: true, ticks: Math.max(2, Math.floor(width / 90)) },
      y: many ? { label: null, domain: arms, tickFormat: short } : { label: null, grid: true, ticks: 3, zero: true, nice: true, tickFormat: (v) => milliseconds(v) },
      ...(many ? {} : { fy: { label: null, domain: arms, tickFormat: short, padding: 0.12 } }),
      marks: [
        ...(many ? [] : [Plot.frame({ stroke: "var(--line)" })]),
        Plot.ruleX(marks, { x: "at", stroke: "var(--fg)", strokeDasharray: "4,3" }),
        Plot.text(marks, { x: "at", text: "name", frameAnchor: "top", dy: -14, textAnchor: "start", fill: "var(--fg)", ...(many ? {} : { fy: () => arms[0] }) }),
        Plot.dot(fine, { x: "x", ...place, r: 2.5, fill: (d) => colours.get(d.arm), fillOpacity: 0.55 }),
        Plot.dot(bad, { x: "x", ...place, r: 5, symbol: "times", stroke: "var(--costs)", strokeWidth: 2 }),
        Plot.tip(all, Plot.pointer({ x: "x", ...place, fill: "var(--card)", title: said })),
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
    const said = (d) => `${labels.get(d.arm)}\n${d.tokens} tokens: ${(d.share * 100).toFixed(1)}% of steps`;
    return told(values.map(said), {
      width, height: 170, marginLeft: 44, marginBottom: 40, style,
      x: { label: "tokens in a step", domain, tickSize: 0 },
      y: { label: null, domain: [0, mostShare], tickFormat: percent, ticks: 4, grid: true },
      marks: [
        Plot.barY(values, { x: "tokens", y: "share", fill: (d) => colours.get(d.arm), fillOpacity: 0.85, mixBlendMode: "normal" }),
        Plot.ruleY([0], { stroke: "var(--muted)" }),
        Plot.tip(values, Plot.pointerX({ x: "tokens", y: "share", fill: "var(--card)", title: said })),
      ],
    });
  }

  function positions(index, width) {
    const values = data.cases[index].arms.flatMap((arm) => arm.positions.map((rate, i) => ({ arm: arm.name, position: i + 1, rate })));
    if (!values.length) return null;
    const said = (d) => `${labels.get(d.arm)}\nposition ${d.position}: ${percent(d.rate)}`;
    return told(values.map(said), {
      width, height: 170, marginLeft: 44, marginBottom: 40, style,
      x: { label: "position of the draft token", ticks: Math.min(8, values.length), tickFormat: "d" },
      y: { label: null, domain: [0, 1], tickFormat: percent, ticks: 4, grid: true },
      marks: [
        Plot.lineY(values, { x: "position", y: "rate", z: "arm", stroke: (d) => colours.get(d.arm), strokeWidth: 2 }),
        Plot.dot(values, { x: "position", y: "rate", r: 3.5, fill: (d) => colours.get(d.arm) }),
        Plot.tip(values, Plot.pointer({ x: "position", y: "rate", fill: "var(--card)", title: said })),
      ],
    });
  }

  function trend(index, width) {
    const values = data.trend[index].map(([at, gain, run]) => ({ at: new Date(at), gain, run }));
    const said = (d) => `${d.run}\n${d.gain.toFixed(2)}×`;
    // One run has no stretch of time to divide: its day stands in the middle.
    const day = values.length === 1 ? { domain: [-1, 1].map((side) => new Date(+values[0].at + side * 43200000)), ticks: [values[0].at], tickFormat: (at) => at.toISOString().slice(0, 10) } : {};
    return told(values.map(said), {
      width, height: 230, marginLeft: 44, marginRight: 24, style,
      x: { label: null, type: "utc", nice: true, ticks: Math.max(2, Math.floor(width / 110)), ...day },
      y: { label: "speed-up", grid: true, tickFormat: (v) => `${v}×`, ticks: 5, nice: true },
      marks: [
        Plot.ruleY([1], { stroke: "var(--muted)", strokeDasharray: "4,3" }),
        Plot.lineY(values, { x: "at", y: "gain", stroke: "var(--arm)", strokeWidth: 2 }),
        Plot.dot(values, { x: "at", y: "gain", r: 4, fill: "var(--arm)" }),
        Plot.tip(values, Plot.pointerX({ x: "at", y: "gain", fill: "var(--card)", title: said })),
      ],
    });
  }

  const shared = { data, told, style, labels, colours, percent, milliseconds };
  const kinds = { theory, forecast, share, timeline, steps, positions, trend, ...loadCharts(shared), ...sweptCharts(shared) };
  const observer = new ResizeObserver((entries) => {
    for (const entry of entries) draw(entry.target, Math.floor(entry.contentRect.width));
  });

  function draw(target, width) {
    if (width < 40 || target.dataset.width === String(width)) return;
    target.dataset.width = String(width);
    const figure = target.closest("figure");
    const chart = kinds[figure.dataset.chart](Number(figure.dataset.index), width, figure.dataset.metric);
    const shown = chart ?? Object.assign(document.createElement("p"), { className: "none", textContent: "No values to show here." });
    if (chart) chart.setAttribute("aria-hidden", "true");
    target.readings = chart?.readings ?? [];
    target.replaceChildren(shown);
  }

  // Arrow keys, Home and End walk through a chart's values, which are shown below it and read aloud.
  function walk(event) {
    const target = event.currentTarget, last = (target.readings ?? []).length - 1, at = target.reading ?? -1;
    const to = { ArrowRight: Math.min(last, at + 1), ArrowLeft: Math.max(0, at - 1), Home: 0, End: last }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    target.reading = to;
    target.closest("figure").querySelector("output").textContent = `${target.readings[to].replaceAll("\n", ", ")} (${to + 1} of ${last + 1})`;
  }

  for (const target of document.querySelectorAll("figure.chart .plot")) {
    target.after(document.createElement("output"));
    target.addEventListener("keydown", walk);
    observer.observe(target);
  }
  // The contents lead into folded parts, too. (A search in the page opens them by itself.)
  const unfold = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    for (let at = target; at; at = at.parentElement) if (at.localName === "details") at.open = true;
    target?.closest(".folded")?.querySelector("details").setAttribute("open", "");
    target?.scrollIntoView();
  };
  addEventListener("hashchange", unfold);
  if (location.hash) unfold();
})();
