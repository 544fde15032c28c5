// The topology at a moment: router and store above, a bus for each row of
// nodes, the faults where they act, and the chosen packet's way on top.
function layout(width) {
  const tile = nodes.length > 30 ? { w: live ? 128 : 74, h: 28, gap: 8 } : nodes.length > 12 ? { w: 104, h: 52, gap: 10 } : { w: 146, h: 76, gap: 16 };
  const groups = rec.Topology.Segments.map((net, i) => ({ net, nodes: nodes.filter(n => n.place.Segment === i) }));
  const all = nodes.length * (tile.w + tile.gap) + groups.length * 30;
  const beside = all <= width;
  const spots = {}, buses = [];
  let x = 30, y = 78, bottom = 0;
  for (const g of groups) {
    const columns = beside ? Math.max(1, g.nodes.length) : Math.max(1, Math.floor((width - 40) / (tile.w + tile.gap)));
    const rows = Math.max(1, Math.ceil(g.nodes.length / columns));
    const used = Math.max(1, Math.min(columns, g.nodes.length)) * (tile.w + tile.gap) - tile.gap;
    const bus = { net: g.net, x, y, width: used, rows: [] };
    for (let r = 0; r < rows; r++) {
      const top = y + r * (tile.h + 34);
      bus.rows.push(top);
      g.nodes.slice(r * columns, (r + 1) * columns).forEach((n, c) => { spots[n.name] = { x: x + c * (tile.w + tile.gap), y: top + 18, bus: top }; });
      bottom = Math.max(bottom, top + 18 + tile.h);
    }
    buses.push(bus);
    if (beside) x += Math.max(used, 130) + 40; else y = bottom + 40;
  }
  const right = Math.max(...buses.map(b => b.x + b.width), 300);
  return { tile, spots, buses, beside, width: Math.max(beside ? Math.min(width, right + 30) : width, 320), height: bottom + 14 };
}

function drawTopology(t) {
  const box = $("topology");
  const l = layout(Math.max(320, box.clientWidth));
  const active = faultsAt(t);
  const broken = what => active.find(b => b.What === what);
  const store = active.filter(b => b.What.split(" ")[0] === "store");
  const router = { x: l.width / 2 - 100, y: 8, w: 84, h: 30 }, storage = { x: l.width / 2 + 16, y: 8, w: 84, h: 30 };
  const wire = (d, bad) => make("path", { d, fill: "none", stroke: bad ? "var(--bad)" : "var(--muted)", "stroke-width": bad ? 2 : 1.3, "stroke-dasharray": bad ? "5 4" : undefined });
  const parts = [patterns(), live ? null : wire(`M${router.x + router.w},23 H${storage.x}`, store.length)];
  const start = router.x + router.w / 2;
  for (const b of l.buses) {
    parts.push(wire(l.beside ? `M${start},38 V52 H${b.x + 8} V${b.y}` : `M${start},38 V52 H12 V${b.y} H${b.x}`));
    b.rows.forEach((y, i) => {
      parts.push(make("line", { x1: b.x - (i || !l.beside ? 18 : 0), x2: b.x + b.width, y1: y, y2: y, stroke: "var(--muted)", "stroke-width": 3, "stroke-linecap": "round" }));
      if (i) parts.push(make("line", { x1: b.x - 18, x2: b.x - 18, y1: b.rows[0], y2: y, stroke: "var(--muted)", "stroke-width": 3 }));
    });
    parts.push(make("text", { x: b.x + 14, y: b.y - 6, class: "mono" }, b.net));
  }
  const boxOf = (r, text, bad, note) => parts.push(make("rect", { ...{ x: r.x, y: r.y, width: r.w, height: r.h }, rx: 4, fill: bad ? "var(--bad-soft)" : "var(--panel)", stroke: bad ? "var(--bad)" : "var(--muted)", "stroke-width": bad ? 2 : 1.2 }),
    make("text", { x: r.x + r.w / 2, y: r.y + 20, "text-anchor": "middle" }, text), make("text", { x: r.x + r.w + 6, y: r.y + 20, class: "small", style: "fill: var(--bad)" }, note || ""));
  boxOf(router, live ? "network" : "router", false);
  if (!live) boxOf(storage, store.length ? "✕ store" : "store", store.length, store.map(b => b.What).join(", "));
  for (const n of nodes) parts.push(drawTile(n, t, l, broken));
  const path = chosen && chosen.Path >= 0 ? drawPath(rec.Paths[chosen.Path], l, router) : null;
  const svg = make("svg", { width: l.width, height: l.height, viewBox: `0 0 ${l.width} ${l.height}`, role: "group", "aria-label": "Topology" }, ...parts, path);
  const focused = document.activeElement && document.activeElement.getAttribute("data-node");
  box.replaceChildren(svg);
  if (focused) svg.querySelector(`[data-node="${CSS.escape(focused)}"]`)?.focus();
}

function drawTile(n, t, l, broken) {
  const { x, y, bus } = l.spots[n.name];
  const { w, h } = l.tile;
  const s = stateAt(n, t), kind = kindOf(s), shortage = shortAt(n, t);
  const cut = broken(n.name + " isolate") || broken(n.name + " uplink"), alone = broken(n.name + " cut");
  const patterned = fillOf(kind).startsWith("url");
  const g = make("g", { class: "tile", tabindex: 0, role: "button", "data-node": n.name, "aria-label": `${n.name}: ${wordOf(s)}`,
    onclick: () => choose(n), onkeydown: e => { if (e.key === "Enter") choose(n); } },
    make("line", { x1: x + w / 2, x2: x + w / 2, y1: bus, y2: y, stroke: cut ? "var(--bad)" : "var(--muted)", "stroke-width": cut ? 2 : 1.3, "stroke-dasharray": cut ? "3 3" : undefined }),
    make("rect", { class: "body", x, y, width: w, height: h, rx: 5, fill: "var(--panel)", stroke: n === selected ? "var(--accent)" : cut || shortage.Total ? "var(--bad)" : "var(--line)", "stroke-width": n === selected ? 2.5 : cut || shortage.Total ? 1.8 : 1.2 }),
    make("rect", { x: x + 1.5, y: y + 1.5, width: w - 3, height: Math.min(22, h - 3), rx: 4, fill: fillOf(kind) }));
  const word = `${kinds[kind][2]} ${h > 30 ? wordOf(s) : ""}`.trim();
  const room = w - 14 - n.name.length * 8;
  if (patterned) {
    const plate = 10 + n.name.length * 7.5;
    g.append(make("rect", { x: x + 4, y: y + 4, width: plate, height: 17, rx: 2, fill: "var(--panel)" }),
      make("rect", { x: x + w - 8 - word.length * 6.8, y: y + 4, width: word.length * 6.8 + 5, height: 17, rx: 2, fill: "var(--panel)" }));
  }
  const ink = `fill: var(--${patterned ? "ink" : light(kind) ? "on-light" : "on-dark"})`;
  g.append(make("text", { x: x + 8, y: y + 17, style: ink + "; font-weight: 700" }, fit(n.name, w - 24, 7.4)),
    make("text", { x: x + w - 7, y: y + 17, "text-anchor": "end", style: ink + "; font-size: 11.5px" }, fit(word, room + 8, 6.2) || kinds[kind][2]));
  if (h > 30) g.append(make("text", { x: x + 8, y: y + 37, class: "mono" }, fit(s.Subnet || (kind === "unknown" || s.Brief ? "" : "no subnet"), w - 12, 6.4)));
  if (h > 60) {
    const note = cut ? ["✕ " + cut.What.split(" ").slice(1).join(" "), "--bad"] : alone ? ["✕ cut from the store", "--bad"]
      : shortage.Total ? [`${shortage.Total} change${shortage.Total > 1 ? "s" : ""} short`, "--bad"] : live && last(n.short, t) < 0 ? ["", "--muted"] : s.Subnet ? [live ? "as desired" : "as the leases demand", "--ok"] : ["", "--muted"];
    g.append(make("text", { x: x + 8, y: y + 53, class: "mono" }, n.place.Address), make("text", { x: x + 8, y: y + 69, style: `font-size: 11px; fill: var(${note[1]})` }, note[0]));
  } else if (shortage.Total && h > 30) {
    g.append(make("text", { x: x + 8, y: y + 48, style: "font-size: 10.5px; fill: var(--bad)" }, `${shortage.Total} short`));
  } else if (cut && h > 30) {
    g.append(make("text", { x: x + 8, y: y + 48, style: "font-size: 10.5px; fill: var(--bad)" }, "✕ " + cut.What.split(" ")[1]));
  }
  return g;
}

// drawPath is a packet from its pod to where it arrived or was lost, and of one
// that arrived the answer, if that was lost.
function drawPath(hops, l, router) {
  const stops = [];
  let lost = false;
  const answerLost = hops.some(h => h.What === "drop");
  for (const h of hops) {
    const name = nodeOf(h.Where);
    if (stops[stops.length - 1] !== name) stops.push(name);
    if (h.What === "arrive" && !answerLost) break;
    if (h.What === "drop") { lost = true; break; }
  }
  const points = [];
  for (const s of stops) {
    const spot = l.spots[s];
    if (s === "router") points.push([router.x + router.w / 2 - 18, router.y + router.h + 8]);
    else if (spot) points.push([spot.x + l.tile.w - 14, spot.y + 2]);
  }
  if (!points.length) return null;
  if (points.length === 1 && l.spots[stops[0]]) points[0] = [l.spots[stops[0]].x + l.tile.w - 15, l.spots[stops[0]].y + l.tile.h - 12];
  const colour = lost ? "var(--bad)" : "var(--accent)";
  let d = `M${points[0]}`;
  const busOf = s => l.spots[s] && l.spots[s].bus;
  for (let i = 1; i < points.length; i++) {
    const [x0, y0] = points[i - 1], [x1, y1] = points[i];
    const level = busOf(stops[i]) || busOf(stops[i - 1]);
    d += level ? ` L${x0},${Math.min(level, Math.max(y0, level)) - 5} L${x1},${level - 5} L${x1},${y1}` : ` L${x1},${y1}`;
  }
  const [ex, ey] = points[points.length - 1];
  return make("g", { "pointer-events": "none" },
    make("path", { d, fill: "none", stroke: colour, "stroke-width": 3, "stroke-linejoin": "round", "stroke-opacity": .85 }),
    make("circle", { cx: points[0][0], cy: points[0][1], r: 5, fill: colour }),
    lost ? make("g", {}, make("circle", { cx: ex, cy: ey, r: 10, fill: "var(--panel)", stroke: colour, "stroke-width": 2 }),
      make("path", { d: `M${ex - 4.5},${ey - 4.5} l9,9 m0,-9 l-9,9`, stroke: colour, "stroke-width": 2.6 }))
      : make("circle", { cx: ex, cy: ey, r: 6, fill: "var(--panel)", stroke: colour, "stroke-width": 3 }));
}
