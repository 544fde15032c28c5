// The moment shown, and what moves it.
let now = rec.Focus, playing = 0;
let selected = byName[rec.FocusOn] || nodes[0];
let chosen, pinned;

// packetAt is the packet to show: the one pinned, else the last one lost, else
// the last one sent. If that was lost and another one of its pair arrived after
// the end, it is that one, as in the table of who reaches whom.
function packetAt(t) {
  if (pinned && probeAt(pinned.From, pinned.To, t)) return probeAt(pinned.From, pinned.To, t);
  if (!rec.OK && t >= rec.Focus && rec.Packet >= 0) return rec.Probes[rec.Packet];
  let found, lost;
  for (const p of rec.Probes) {
    if (p.shown > t) continue;
    if (!p.After || !found) found = p;
    if (!p.OK && (p.After || probeAt(p.From, p.To, t) === p) && !(lost && p.After)) lost = p;
  }
  return lost || (found && !found.OK ? probeAt(found.From, found.To, t) : found);
}

function show(t) {
  now = Math.round(Math.max(0, Math.min(rec.Length, t)));
  $("scrub").value = Math.round(toX(now) * 1000);
  draw();
}

function draw() {
  chosen = packetAt(now);
  $("now").textContent = clock(now);
  $("scrub").setAttribute("aria-valuetext", clock(now));
  const step = rec.Steps[stepAt(now)];
  const count = {};
  for (const n of nodes) count[wordOf(stateAt(n, now))] = (count[wordOf(stateAt(n, now))] || 0) + 1;
  const faults = faultsAt(now).map(b => b.What);
  $("doing").replaceChildren(step ? make("b", {}, step.Text) : "", " · ", Object.entries(count).map(([k, v]) => `${v} ${k}`).join(", "),
    faults.length ? " · broken: " + faults.join(", ") : "");
  if (cursor) cursor.setAttribute("transform", `translate(${gutter + toX(now) * plotWidth},0)`);
  drawTopology(now);
  drawInspector(now);
  drawReach(now);
  drawPacket(now);
  markSteps(now);
  drawLeases(now);
  drawLog(now);
}

function choose(n) { selected = n; draw(); }

function step(by) {
  const i = last(moments, now, m => m);
  show(moments[Math.max(0, Math.min(moments.length - 1, by < 0 && moments[i] < now ? i : i + by))]);
}

// Play takes twenty seconds for all.
function play(on) {
  cancelAnimationFrame(playing);
  playing = 0;
  $("play").textContent = on ? "‖ pause" : "▶ play";
  $("play").setAttribute("aria-label", on ? "Pause" : "Play");
  if (!on) return;
  if (now >= rec.Length) show(0);
  let before = performance.now(), x = toX(now);
  const frame = at => {
    x = Math.min(1, x + (at - before) / 20000);
    before = at;
    show(toT(x));
    if (x >= 1) return play(false);
    playing = requestAnimationFrame(frame);
  };
  playing = requestAnimationFrame(frame);
}

$("node").replaceChildren(...nodes.map(n => make("option", { value: n.name }, n.name)));
$("node").addEventListener("change", e => choose(byName[e.target.value]));
$("scrub").addEventListener("input", e => show(toT(e.target.value / 1000)));
$("prev").addEventListener("click", () => step(-1));
$("next").addEventListener("click", () => step(1));
$("play").addEventListener("click", () => play(!playing));
$("focus").addEventListener("click", () => show(rec.Focus));
$("only").addEventListener("change", draw);
$("warp").addEventListener("change", e => { warp = e.target.checked; drawTimeline(); show(now); });
$("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText($("replay").textContent);
    $("copy").textContent = "copied";
  } catch {
    getSelection().selectAllChildren($("replay"));
  }
});
document.addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.tagName === "SELECT") return;
  if (e.key === "ArrowLeft" || e.key === "ArrowRight") step(e.key === "ArrowLeft" ? -1 : 1);
  else if (e.key === " " && !["BUTTON", "INPUT"].includes(e.target.tagName)) play(!playing);
  else return;
  e.preventDefault();
});
let resized;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(() => { drawTimeline(); show(now); }, 100); });

drawLegend();
drawSteps();
drawTimeline();
show(now);
