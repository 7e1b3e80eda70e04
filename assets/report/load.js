// Charts over the load, one a question. `charts.js` calls `loadCharts` with what both draw with. A circle is the
// baseline, a square the arm; a hollow one stands for more requests than the server takes into a batch.
const loadCharts = (shared) => {
  "use strict";
  const { data, told, style, labels, colours, percent, milliseconds } = shared;
  const times = (value) => `${value.toFixed(2)}×`;
  const short = (value) => `${Number(value.toPrecision(3))}`;
  const rounded = (value) => (value >= 10 ? value.toFixed(0) : short(Number(value.toPrecision(2))));
  const time = (value) => (value >= 1 ? `${short(value)} s` : milliseconds(value));
  for (const point of (data.curves ?? []).flatMap((curve) => curve.points)) {
    Object.assign(point, { at: point.level.rate ?? point.level.concurrency, arms: [point.base, point.other] });
  }
  const [CIRCLE, SQUARE] = ["circle", "square"];

  // The points of both arms: what a chart draws of each is `pick`'s.
  function both(curve, pick) {
    return curve.points.flatMap((point) => point.arms.map((arm, i) => ({
      ...point, arm: i ? curve.variant : curve.baseline, symbol: i ? SQUARE : CIRCLE, ...pick(arm),
    })));
  }
  const load = (curve, d) => `at ${d.at} ${curve.unit}${d.queueing ? ", requests queue" : ""}${d.doubtful ? ", doubtful" : ""}`;
  const dots = (values, x, y, colour) => Plot.dot(values, {
    x, y, r: 4.5, symbol: (d) => d.symbol, stroke: colour, strokeWidth: 1.8, fill: (d) => (d.queueing ? "var(--card)" : colour(d)),
  });
  const tip = (values, x, y, title) => Plot.tip(values, Plot.pointer({ x, y, fill: "var(--card)", title }));
  const arm = (d) => colours.get(d.arm);

  // Values that differ by more than a factor of 10 are on a logarithmic scale, or the small ones could not be told apart.
  function scale(values, show) {
    const low = Math.min(...values), high = Math.max(...values);
    if (!(low > 0 && high > 10 * low)) return { zero: true, ticks: 5, tickFormat: show };
    const steps = [];
    for (let power = 10 ** Math.floor(Math.log10(low)); power <= high; power *= 10) steps.push(...[1, 2, 5].map((n) => n * power));
    return { type: "log", nice: false, ticks: steps.filter((v) => v >= low / 1.01 && v <= high * 1.01), tickFormat: show };
  }

  // Every chart but the first has the load on its x axis: a tick for each level, on a logarithmic scale.
  function overLoad(curve, width, readings, y, marks) {
    const levels = curve.points.map((point) => point.at);
    const first = levels[0], last = levels[levels.length - 1];
    const doubtful = new Set(curve.points.filter((point) => point.doubtful).map((point) => point.at));
    const queue = curve.points.some((point) => point.queueing) && curve.batch && curve.batch < last ? [{ x1: Math.max(first, curve.batch), x2: last }] : [];
    return told(readings, {
      width, height: 240, marginLeft: 58, marginRight: 24, marginBottom: 40, marginTop: 22, style,
      x: { type: "log", base: 2, domain: [first, last], label: curve.unit, ticks: levels, tickFormat: (v) => `${v}${doubtful.has(v) ? "?" : ""}` },
      y: { label: null, grid: true, ticks: 5, nice: true, ...y },
      marks: [
        Plot.rectX(queue, { x1: "x1", x2: "x2", fill: "var(--muted)", fillOpacity: 0.12 }),
        Plot.text(queue, { x: "x2", text: () => "requests queue", frameAnchor: "top", dy: -14, textAnchor: "end", fill: "var(--fg)" }),
        ...marks,
      ],
    });
  }

  function pareto(index, width) {
    const curve = data.curves[index];
    const values = both(curve, (found) => ({ user: found.user_speed, all: found.output_throughput })).filter((d) => d.user !== null && d.all !== null);
    const said = (d) => `${labels.get(d.arm)} ${load(curve, d)}: ${short(d.all)} tokens/s in all, ${short(d.user)} a user`;
    // The baseline's points have their names on the left, the arm's on the right: where both meet they can be read.
    const named = (symbol, textAnchor, dx) => Plot.text(values.filter((d) => d.symbol === symbol), {
      x: "user", y: "all", text: (d) => `${d.at}${d.doubtful ? "?" : ""}`, dx, dy: -9, textAnchor, fill: "var(--fg)", stroke: "var(--bg)", strokeWidth: 3,
    });
    const pairs = curve.points.filter((point) => point.arms.every((found) => found.user_speed !== null && found.output_throughput !== null));
    return told(values.map(said), {
      width, height: Math.min(420, Math.max(280, width * 0.5)), marginLeft: 56, marginRight: 30, marginBottom: 42, marginTop: 26, style,
      x: { label: "tokens/s that a user sees", zero: true, nice: true, ticks: Math.max(3, Math.floor(width / 90)) },
      y: { label: "tokens/s in all", nice: true, grid: true, ...scale(values.map((d) => d.all), short) },
      marks: [
        Plot.link(pairs, { x1: (d) => d.arms[0].user_speed, y1: (d) => d.arms[0].output_throughput, x2: (d) => d.arms[1].user_speed, y2: (d) => d.arms[1].output_throughput, stroke: "var(--muted)", strokeDasharray: "2,3" }),
        Plot.line(values, { x: "user", y: "all", z: "arm", stroke: arm, strokeWidth: 2 }),
        dots(values, "user", "all", arm),
        named(CIRCLE, "end", -8), named(SQUARE, "start", 8),
        tip(values, "user", "all", said),
      ],
    });
  }

  function gain(index, width) {
    const curve = data.curves[index];
    const values = curve.points.map((d) => ({ ...d, arm: curve.variant, symbol: SQUARE, s: d.speedup.ratio, low: d.speedup.low ?? d.speedup.ratio, high: d.speedup.high ?? d.speedup.ratio }));
    const said = (d) => `${load(curve, d)}: ${times(d.s)} (${d.low.toFixed(2)}–${d.high.toFixed(2)})`;
    const first = values[0].at, last = values[values.length - 1].at;
    const places = curve.crossovers.map(({ load: at, low, high }) => ({ at, low: Math.max(low, first), high: Math.min(high, last) }));
    const passes = curve.crossovers.map(({ load: at, low, high }) => `passes 1 at ${rounded(at)} (95% CI ${rounded(low)} to ${rounded(high)})`);
    const named = (side, dx, late) => Plot.text(places.filter((d) => late === (d.at > Math.sqrt(first * last))), {
      x: "at", text: (d) => `crossover ${rounded(d.at)}`, frameAnchor: "bottom", dx, dy: -6, textAnchor: side, fill: "var(--fg)", stroke: "var(--bg)", strokeWidth: 3,
    });
    const colour = colours.get(curve.variant);
    return overLoad(curve, width, values.map(said).concat(passes), { tickFormat: (v) => `${v}×` }, [
      Plot.rectX(places, { x1: "low", x2: "high", fill: "var(--unknown)", fillOpacity: 0.25 }),
      Plot.ruleX(places, { x: "at", stroke: "var(--unknown)", strokeWidth: 1.5 }),
      Plot.areaY(values, { x: "at", y1: "low", y2: "high", fill: colour, fillOpacity: 0.18 }),
      Plot.ruleY([1], { stroke: "var(--fg)", strokeDasharray: "4,3" }),
      Plot.lineY(values, { x: "at", y: "s", stroke: colour, strokeWidth: 2 }),
      dots(values, "at", "s", arm),
      named("start", 6, false), named("end", -6, true),
      tip(values, "at", "s", said),
    ]);
  }

  function latency(index, width, metric) {
    const curve = data.curves[index], limit = curve.limits[metric];
    const values = both(curve, (found) => ({ half: found[`${metric}_p50`], most: found[`${metric}_p95`] })).filter((d) => d.half !== null && d.most !== null);
    const all = values.flatMap((d) => [d.half, d.most]);
    const limits = limit && limit < 2 * Math.max(...all) ? [limit] : [];
    const said = (d) => `${labels.get(d.arm)} ${load(curve, d)}: half within ${time(d.half)}, 95% within ${time(d.most)}`;
    return overLoad(curve, width, values.map(said), scale(all, time), [
      Plot.ruleY(limits, { stroke: "var(--fg)", strokeDasharray: "1,3", strokeWidth: 2 }),
      Plot.text(limits, { y: (v) => v, text: (v) => `SLO ${time(v)}`, frameAnchor: "left", dx: 4, dy: -7, fill: "var(--fg)", stroke: "var(--bg)", strokeWidth: 3 }),
      Plot.line(values, { x: "at", y: "most", z: "arm", stroke: arm, strokeWidth: 1.6, strokeDasharray: "5,3" }),
      Plot.line(values, { x: "at", y: "half", z: "arm", stroke: arm, strokeWidth: 2 }),
      dots(values, "at", "half", arm),
      tip(values, "at", "half", said),
    ]);
  }

  function good(index, width, metric) {
    const curve = data.curves[index], limit = curve.limits[metric];
    const values = both(curve, (found) => ({ value: found[metric] })).filter((d) => d.value !== null);
    const share = metric === "good_share";
    const said = (d) => `${labels.get(d.arm)} ${load(curve, d)}: ${share ? percent(d.value) : `${short(d.value)} good requests/s`}`;
    return overLoad(curve, width, values.map(said), share ? { domain: [0, 1], tickFormat: percent } : { zero: true }, [
      Plot.ruleY(limit ? [limit] : [], { stroke: "var(--fg)", strokeDasharray: "1,3", strokeWidth: 2 }),
      Plot.text(limit ? [limit] : [], { y: (v) => v, text: (v) => `${percent(v)} asked for`, frameAnchor: "left", dx: 4, dy: 9, fill: "var(--fg)", stroke: "var(--bg)", strokeWidth: 3 }),
      Plot.line(values, { x: "at", y: "value", z: "arm", stroke: arm, strokeWidth: 2 }),
      dots(values, "at", "value", arm),
      tip(values, "at", "value", said),
    ]);
  }

  function lengths(index, width) {
    const curve = data.curves[index], colour = colours.get(curve.variant);
    const values = curve.points.filter((d) => d.acceptance_length !== null && d.break_even !== null).map((d) => ({ ...d, arm: curve.variant, symbol: SQUARE, accepted: d.acceptance_length, even: d.break_even }));
    const said = (d) => `${load(curve, d)}: ${d.accepted.toFixed(2)} tokens a step, ${d.even.toFixed(2)} would be as fast as without`;
    const first = values.slice(0, 1);
    const pays = first[0].accepted > first[0].even;
    const name = (y, text) => Plot.text(first, { x: "at", y, text: () => text, dx: 6, dy: (y === "accepted") === pays ? -11 : 11, textAnchor: "start", fill: "var(--fg)", stroke: "var(--bg)", strokeWidth: 3 });
    return overLoad(curve, width, values.map(said), { inset: 14 }, [
      Plot.line(values, { x: "at", y: "even", stroke: "var(--fg)", strokeWidth: 1.6, strokeDasharray: "5,3" }),
      Plot.line(values, { x: "at", y: "accepted", stroke: colour, strokeWidth: 2 }),
      dots(values, "at", "accepted", arm),
      name("accepted", "tokens of a step"), name("even", "break-even"),
      tip(values, "at", "accepted", said),
    ]);
  }

  return { pareto, gain, latency, good, lengths };
};
