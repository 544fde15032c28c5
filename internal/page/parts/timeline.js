// The timeline: steps, faults, packets and one row for each node.
const gutter = Math.min(200, Math.max(74, ...rec.Nodes.map(n => n.Name.length * 6.3 + 14)));
let cursor, plotWidth;

function patterns() {
  const hatch = (id, fill) => make("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    make("rect", { width: 6, height: 6, fill: "var(--panel)" }), make("rect", { width: 3, height: 6, fill }));
  return make("defs", {}, hatch("p-down", "var(--down)"), hatch("p-paused", "var(--paused)"),
    hatch("p-stale", "var(--stale)"), hatch("p-fenced", "var(--fenced)"), hatch("p-fault", "var(--bad)"));
}
const fillOf = kind => ["down", "paused", "stale", "fenced"].includes(kind) ? `url(#p-${kind})` : `var(--${kind})`;

// lanes lays bands out so that none covers another.
function lanes(bands) {
  const ends = [];
  return bands.map(b => {
    let lane = ends.findIndex(end => end <= b.left);
    if (lane < 0) lane = ends.length;
    ends[lane] = Math.max(b.x + b.width, b.x + 40);
    return { ...b, lane };
  });
}

// Each row adds to the parts of the picture and returns where the next begins.
const label = (text, y) => make("text", { x: gutter - 8, y, "text-anchor": "end", class: "small" }, text);

function axis(parts) {
  for (let i = 0; i <= 6; i++) {
    const anchor = i === 0 ? "start" : i === 6 ? "end" : "middle";
    parts.push(make("text", { x: gutter + plotWidth * i / 6, y: 11, class: "small", "text-anchor": anchor }, live ? clock(toT(i / 6)).slice(5, 19) : short(Math.round(toT(i / 6)))));
  }
  return 16;
}

function stepRow(parts, y, x) {
  parts.push(label("steps", y + 14));
  let free = 0;
  rec.Steps.forEach((s, i) => {
    const from = x(s.From), to = i + 1 < rec.Steps.length ? x(rec.Steps[i + 1].From) : gutter + plotWidth;
    parts.push(make("g", {}, make("title", {}, s.Text),
      make("rect", { x: from, y, width: Math.max(1, to - from), height: 20, fill: s.Failed ? "var(--bad-soft)" : i % 2 ? "var(--soft)" : "var(--panel)" }),
      make("line", { x1: from, x2: from, y1: y, y2: y + 20, stroke: s.Failed ? "var(--bad)" : "var(--line)", "stroke-width": s.Failed ? 2 : 1 })));
    const text = fit((s.Failed ? "✕ " : "") + s.Text.split(" ").slice(0, 3).join(" "), to - Math.max(from, free) - 6);
    if (text && from >= free) {
      parts.push(make("text", { x: from + 4, y: y + 14, class: "small" }, text));
      free = from + text.length * 6.6;
    }
  });
  return y + 26;
}

function faultRows(parts, y, x) {
  const began = new Set(rec.Bands.map(b => b.Step));
  const deeds = rec.Steps.filter((s, i) => s.Fault && !began.has(i)).map(s => ({ x: x(s.From), width: 0, text: s.Text }));
  const bands = rec.Bands.map(b => ({ x: x(b.From), width: x(bandEnd(b)) - x(b.From), text: rec.Steps[b.Step] ? rec.Steps[b.Step].Text : b.What }));
  for (const p of [...bands, ...deeds]) {
    p.text = p.text.replace(/^fault /, "");
    p.before = p.width <= 60 && p.x > gutter + plotWidth - 110; // its text stands before it
    p.left = p.before ? p.x - p.text.length * 6.6 - 14 : p.x;
  }
  const placed = lanes([...bands, ...deeds].sort((a, b) => a.left - b.left));
  parts.push(label("faults", y + 12));
  if (!placed.length) parts.push(make("text", { x: gutter + 2, y: y + 12, class: "small" }, "none"));
  for (const p of placed) {
    const top = y + p.lane * 18;
    const shape = p.width > 3
      ? make("rect", { x: p.x, y: top + 2, width: p.width, height: 13, rx: 2, fill: "var(--bad-soft)", stroke: "var(--bad)" })
      : make("path", { d: `M${p.x},${top + 2} l6,12 h-12 z`, fill: "var(--bad)" });
    const inside = p.width > 60, start = inside ? p.x + 5 : p.x + Math.max(p.width, 8) + 4;
    const end = inside ? p.x + p.width : placed.filter(o => o.lane === p.lane && o.x > p.x).reduce((m, o) => Math.min(m, o.left), gutter + plotWidth);
    const text = p.before ? make("text", { x: p.x - 9, y: top + 13, class: "small", "text-anchor": "end" }, p.text)
      : make("text", { x: start, y: top + 13, class: "small" }, fit(p.text, end - start - 4));
    parts.push(make("g", {}, make("title", {}, p.text), shape, text));
  }
  return y + Math.max(1, ...placed.map(p => p.lane + 1)) * 18 + 6;
}

function packetRow(parts, y, x) {
  parts.push(label(live ? "probes" : "packets", y + 12));
  for (const p of rec.Probes) {
    const at = x(p.shown), end = x(p.After ? rec.Length : p.Last);
    const title = make("title", {}, `${p.From} to ${p.To}: ${p.OK ? "arrived" : "lost " + (p.Drop || "")}${p.Count > 1 ? `, ${p.Count} times` : ""}`);
    parts.push(make("g", {}, title, p.OK
      ? make("rect", { x: at - 1.5, y: y + 11, width: Math.max(3, end - at), height: 3, rx: 1, fill: "var(--ok)" })
      : make("path", { d: `M${at - 4},${y} l8,8 m0,-8 l-8,8`, stroke: "var(--bad)", "stroke-width": 2.2, fill: "none" })));
  }
  return y + 22;
}

function nodeRow(parts, y, x, n, height) {
  parts.push(label(fit(n.name, gutter - 10), y + height - 5), make("rect", { x: gutter, y, width: plotWidth, height: height - 3, fill: "var(--soft)" }));
  const runs = [];
  for (const c of n.state) {
    const kind = kindOf(c);
    if (!runs.length || runs[runs.length - 1].kind !== kind) runs.push({ at: c.At, kind });
  }
  runs.forEach((r, i) => {
    const from = x(r.at), to = i + 1 < runs.length ? x(runs[i + 1].at) : gutter + plotWidth;
    const hatched = fillOf(r.kind).startsWith("url");
    parts.push(make("g", {}, make("title", {}, `${n.name} ${kinds[r.kind][0]} from ${clock(r.at)}`),
      make("rect", { x: from, y, width: Math.max(.5, to - from), height: height - 3, fill: fillOf(r.kind) })));
    const text = height > 14 ? fit(kinds[r.kind][0], to - from - 8) : "";
    if (text.length <= 3) return;
    if (hatched) parts.push(make("rect", { x: from + 2, y: y + 1, width: text.length * 6.4 + 4, height: height - 5, fill: "var(--panel)", rx: 2 }));
    const ink = hatched ? "ink" : light(r.kind) ? "on-light" : "on-dark";
    parts.push(make("text", { x: from + 4, y: y + (height - 3) / 2 + 4, style: `fill: var(--${ink}); font-size: 11px` }, text));
  });
  return y + height;
}

function drawTimeline() {
  const box = $("timeline");
  const width = Math.max(480, box.clientWidth);
  plotWidth = width - gutter - 14;
  const x = t => gutter + toX(t) * plotWidth;
  const height = nodes.length > 24 ? 11 : nodes.length > 10 ? 15 : 20;
  const parts = [patterns()];
  let y = packetRow(parts, live ? axis(parts) : faultRows(parts, stepRow(parts, axis(parts), x), x), x);
  for (const n of nodes) y = nodeRow(parts, y, x, n, height);
  cursor = make("g", { "pointer-events": "none" }, make("line", { y1: 14, y2: y + 2, stroke: "var(--accent)", "stroke-width": 2 }),
    make("path", { d: "M-5,12 h10 l-5,6 z", fill: "var(--accent)" }));
  const svg = make("svg", { width, height: y + 4, viewBox: `0 0 ${width} ${y + 4}`, role: "img", "aria-label": "Timeline of steps, faults, packets and nodes" }, ...parts, cursor);
  let held = false;
  const move = e => show(toT(Math.max(0, Math.min(1, (e.clientX - svg.getBoundingClientRect().left - gutter) / plotWidth))));
  svg.addEventListener("pointerdown", e => { held = true; svg.setPointerCapture(e.pointerId); move(e); });
  svg.addEventListener("pointermove", e => { if (held) move(e); });
  svg.addEventListener("pointerup", () => { held = false; });
  box.replaceChildren(svg);
}

function drawLegend() {
  const swatch = kind => {
    const s = make("svg", { width: 18, height: 12, "aria-hidden": "true" }, make("rect", { width: 18, height: 12, rx: 2, fill: fillOf(kind) }));
    return make("span", { title: kinds[kind][1] }, s, kinds[kind][0]);
  };
  $("legend").replaceChildren(...Object.keys(kinds).map(swatch),
    make("span", {}, make("svg", { width: 12, height: 12, "aria-hidden": "true" }, make("path", { d: "M6,0 l6,12 h-12 z", fill: "var(--bad)" })), "fault"),
    make("span", {}, make("svg", { width: 12, height: 12, "aria-hidden": "true" }, make("path", { d: "M2,2 l8,8 m0,-8 l-8,8", stroke: "var(--bad)", "stroke-width": 2 })), "packet lost"),
    make("span", {}, make("svg", { width: 12, height: 12, "aria-hidden": "true" }, make("rect", { y: 5, width: 12, height: 3, fill: "var(--ok)" })), "packet arrived"));
}
