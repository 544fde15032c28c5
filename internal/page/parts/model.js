"use strict";
// The recording, and what it says of a moment.
const rec = JSON.parse(document.getElementById("recording").textContent);
const reasons = JSON.parse(document.getElementById("reasons").textContent);
for (const k of ["Steps", "Nodes", "Leases", "Bands", "Events", "Probes", "Paths", "Texts"]) rec[k] = rec[k] || [];
const $ = id => document.getElementById(id);
const nodes = rec.Nodes.map((n, i) => ({
  name: n.Name, index: i, state: n.State || [], short: n.Short || [], place: rec.Topology.Nodes[i],
}));
const byName = Object.fromEntries(nodes.map(n => [n.name, n]));

// last is the index of the last change no later than t, or -1.
function last(changes, t, at = c => c.At) {
  let lo = 0, hi = changes.length;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (at(changes[mid]) <= t) lo = mid + 1; else hi = mid;
  }
  return lo - 1;
}

// A live cluster is known by what its daemons answered at the end.
const live = rec.About.World === "live";
const notYet = { Life: live ? "unknown" : "down", Phase: live ? "" : "idle" };
const stateAt = (n, t) => n.state[last(n.state, t)] || notYet;
const shortAt = (n, t) => n.short[last(n.short, t)] || { Total: 0, Ops: [] };
const leasesAt = t => (rec.Leases[last(rec.Leases, t)] || { Leases: [] }).Leases || [];
const bandEnd = b => b.To < 0 ? rec.Length : b.To;
const faultsAt = t => rec.Bands.filter(b => b.From <= t && t <= bandEnd(b) && (t < bandEnd(b) || b.To < 0));
const stepAt = t => last(rec.Steps, t, s => s.From);

// The packets sent once all was over tell of the end.
for (const p of rec.Probes) p.shown = p.After ? rec.Length : p.At;
const pairs = {};
for (const p of rec.Probes) (pairs[p.From + ">" + p.To] ||= []).push(p);
const probeAt = (from, to, t) => {
  const runs = pairs[from + ">" + to] || [];
  return runs[last(runs, t, p => p.shown)];
};

const kinds = {
  idle: ["idle", "no network config yet", "…"],
  configured: ["configured", "knows the network, holds no subnet", "…"],
  leased: ["leased", "holds a subnet, the host is not yet as it should be", "…"],
  programmed: ["programmed", "the host is as it should be, something else is not", "…"],
  ready: ["ready", "all is as it should be", "✓"],
  stale: ["stale", "works from what it remembers, the store does not answer", "~"],
  fenced: ["fenced", "its subnet may be somebody else's", "!"],
  paused: ["paused", "its daemon is halted", "‖"],
  down: ["down", "no daemon runs", "✕"],
  ...live && { unknown: ["unknown", "not known of this moment, or its daemon was not asked", "?"] },
};

// kindOf is the one word for a node's state.
function kindOf(s) {
  if (s.Life === "paused" || s.Life === "unknown") return s.Life;
  if (s.Life !== "running") return "down";
  if (s.Fenced) return "fenced";
  if (s.Stale) return "stale";
  return s.Ready ? "ready" : s.Phase === "ready" ? "programmed" : s.Phase;
}
const wordOf = s => s.Life.startsWith("exited") ? s.Life : kinds[kindOf(s)][0];
const light = k => ["idle", "configured", "leased", "unknown"].includes(k);

// Every moment at which something changes, for the arrow keys and the scale.
// Packets that arrive change nothing, and are many.
const moments = [...new Set([
  0, rec.Length,
  ...rec.Steps.flatMap(s => [s.From, s.To]), ...rec.Events.map(e => e.At), ...rec.Probes.filter(p => !p.OK).map(p => p.shown),
  ...nodes.flatMap(n => [...n.state.map(c => c.At), ...n.short.map(c => c.At)]),
  ...rec.Bands.flatMap(b => [b.From, bandEnd(b)]), ...rec.Leases.map(c => c.At),
].filter(t => t <= rec.Length))].sort((a, b) => a - b);

// The scale maps time to 0…1. Warped, an idle second takes little more room
// than an idle millisecond: the logarithm of each gap between moments counts.
const warped = [0];
for (let i = 1; i < moments.length; i++) warped.push(warped[i - 1] + Math.log1p((moments[i] - moments[i - 1]) / 1000));
let warp = true;
function toX(t) {
  if (!warp || moments.length < 2) return rec.Length ? t / rec.Length : 0;
  const i = Math.max(0, Math.min(last(moments, t, m => m), moments.length - 2));
  const part = (t - moments[i]) / (moments[i + 1] - moments[i]);
  return (warped[i] + part * (warped[i + 1] - warped[i])) / warped[warped.length - 1];
}
function toT(x) {
  if (!warp || moments.length < 2) return x * rec.Length;
  const w = x * warped[warped.length - 1];
  const i = Math.max(0, Math.min(last(warped, w, v => v), moments.length - 2));
  return moments[i] + (w - warped[i]) / (warped[i + 1] - warped[i]) * (moments[i + 1] - moments[i]);
}

function clock(us) {
  if (live) return new Date(Date.parse(rec.About.Began) + us / 1000).toISOString().slice(0, 23).replace("T", " ");
  const s = us / 1e6;
  if (s >= 3600) return Math.floor(s / 3600) + "h" + String(Math.floor(s / 60) % 60).padStart(2, "0") + "m" + (s % 60).toFixed(1).padStart(4, "0") + "s";
  return s >= 60 ? Math.floor(s / 60) + "m" + (s % 60).toFixed(2).padStart(5, "0") + "s" : s.toFixed(4) + "s";
}
const short = us => us < 1000 ? us + "µs" : us < 1e6 ? +(us / 1e3).toPrecision(3) + "ms" : us < 6e7 ? +(us / 1e6).toPrecision(4) + "s" : clock(us);
const placeOf = where => live ? (where === "router" ? "on the way" : where) : where.includes(".") ? "pod on " + where.split(".")[0] : where.replace(/^segment/, "wires of segment ");

// make builds an element; text children are never parsed.
function make(tag, attrs = {}, ...children) {
  const svg = ["svg", "g", "rect", "line", "path", "circle", "text", "title", "pattern", "defs", "polyline"].includes(tag);
  const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) {
    if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (v !== undefined && v !== false) e.setAttribute(k, v === true ? "" : v);
  }
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
}
// nodeOf is the node of a place on a packet's way. Addresses name the nodes of a live cluster.
const nodeOf = where => byName[where] ? where : where.split(".")[0];
const fit = (text, width, per = 6.6) => text.length * per <= width ? text : width < 4 * per ? "" : text.slice(0, Math.floor(width / per) - 1) + "…";
