// The panels beside and below the topology.
function drawInspector(t) {
  const n = selected, s = stateAt(n, t), kind = kindOf(s), shortage = shortAt(n, t);
  const rows = [["state", make("span", {}, make("b", {}, `${kinds[kind][2]} ${wordOf(s)}`), ` – ${kinds[kind][1]}`)]];
  if (s.Life === "running" || s.Life === "paused") {
    rows.push(["phase", ["idle", "configured", "leased", "programmed", "ready"].map(p => p === s.Phase ? `[${p}]` : p).join(" → ")]);
    if (!s.Brief) rows.push(["store", s.Synced ? `in sync at revision ${s.Revision || 0}, knows ${s.Peers || 0} peers` : s.Stale ? "does not answer; works from saved leases" : "not in sync"]);
  }
  if (!s.Brief && kind !== "unknown") rows.push(["subnet", s.Subnet || "none yet"]);
  if (s.Why) rows.push(["it says", make("ul", { style: "margin: 0; padding-left: 1.1rem" }, ...s.Why.map(i => make("li", {}, rec.Texts[i])))]);
  const faults = faultsAt(t).filter(b => b.What.split(" ")[0] === n.name);
  if (faults.length) rows.push(["fault", faults.map(b => b.What.split(" ").slice(1).join(" ")).join(", ")]);
  const diff = shortage.Total
    ? make("ul", { class: "diff" }, ...shortage.Ops.map(i => {
      const [, how, object] = /^(missing|wrong|left over) (.*)$/.exec(rec.Texts[i]) || [];
      const [sign, color] = { missing: ["+", "add"], wrong: ["≠", "replace"], "left over": ["−", "del"] }[how] || [];
      return make("li", { class: color || "" }, sign ? `${sign} ${object}` : rec.Texts[i]);
    }), shortage.Total > shortage.Ops.length ? make("li", {}, `… and ${shortage.Total - shortage.Ops.length} more`) : null)
    : live && last(n.short, t) < 0 ? make("p", {}, "Not known of this moment.")
    : make("p", { class: "allgood" }, s.Subnet ? "✓ Nothing: the host has exactly what the leases demand." : "Nothing known yet: it has no lease.");
  $("inspector").replaceChildren(
    make("dl", {}, ...rows.flatMap(([k, v]) => [make("dt", {}, k), make("dd", {}, v)])),
    make("h3", {}, shortage.Total ? `Wanted and actual differ in ${shortage.Total} (+ is missing, ≠ is wrong, − is left over)` : "Wanted and actual differ in"), diff);
  $("node").value = n.name;
}

function drawReach(t) {
  const some = nodes.length > 40 ? nodes.filter(n => rec.Probes.some(p => !p.OK && (p.From === n.name || p.To === n.name))).slice(0, 40) : nodes;
  if (!rec.Probes.length) return $("reach").replaceChildren(make("p", { class: "hint" }, live ? "No daemon has probed a peer yet." : "No packet was sent between pods."));
  const names = some.length ? some : nodes.slice(0, 40);
  const cell = (a, b) => {
    if (a === b) return make("td", {}, make("span", { class: "none" }, "·"));
    const p = probeAt(a.name, b.name, t);
    if (!p) return make("td", {}, make("span", { class: "none", title: "nothing sent yet" }, ""));
    const words = `${a.name} to ${b.name}: ${p.OK ? p.Note || "arrived" + (p.Source ? ", seen as " + p.Source : "") : "lost, " + (p.Drop || "no answer")}`;
    return make("td", {}, make("button", { type: "button", title: words, "aria-label": words, class: `${p.Note ? "some" : p.OK ? "yes" : "no"}${chosen && p.From === chosen.From && p.To === chosen.To ? " chosen" : ""}`, onclick: () => { pinned = p; draw(); } }, p.Note ? "!" : p.OK ? "✓" : "✕"));
  };
  $("reach").replaceChildren(make("table", {},
    make("tr", {}, make("th", {}), ...names.map(n => make("th", { scope: "col" }, n.name))),
    ...names.map(a => make("tr", {}, make("th", { scope: "row" }, a.name), ...names.map(b => cell(a, b))))));
}

function drawPacket(t) {
  const p = chosen;
  $("pathnote").textContent = p && p.Path >= 0 && live ? `The line is the way of the probes from ${p.From} to ${p.To}.` : p && p.Path >= 0 ? `The line is the way of the packet from ${p.From} to ${p.To}, sent ${p.After ? "after the end" : "at " + clock(p.At)}.` : "";
  if (!p) return $("path").replaceChildren(make("p", { class: "hint" }, "No packet had been sent by then."));
  const hops = p.Path >= 0 ? rec.Paths[p.Path] : [];
  const words = p.Note ? "! " + p.Note : p.OK ? `✓ arrived${p.Source ? ", but seen as " + p.Source : ""}` : `✕ ${hops.some(h => h.What === "arrive") ? "it arrived, and the answer was lost" : "lost"}${p.Where ? " at " + placeOf(p.Where) : ""}: ${reasons[p.Drop] || p.Drop || "no answer"} (${[live ? "" : p.Drop, p.Detail].filter(Boolean).join(" ")})`;
  const unknown = hops.length ? null : make("p", { class: "hint" }, live ? "Its way is not known: the daemon of the sender was not asked." : "Its way is not known: of very many packets only some are kept.");
  $("path").replaceChildren(
    make("h3", {}, live ? `${p.From} → ${p.To}, so since ${clock(p.At)}` : `${p.From} → ${p.To}, sent ${p.After ? "after the end, to see who reaches whom" : "at " + clock(p.At)}${p.Count > 1 ? `, and ${p.Count - 1} more alike until ${clock(p.Last)}` : ""}`),
    make("p", { class: "verdict " + (p.OK ? "ok" : "bad") }, words),
    unknown || make("ol", { class: "hops" }, ...hops.map(h => make("li", { class: h.What === "drop" ? "drop" : "" },
      make("span", { class: "at" }, live ? "" : "+" + short(h.After)), make("span", {}, placeOf(h.Where)), make("span", {}, `${h.What} ${h.Detail || ""}`)))));
}

function drawSteps() {
  $("steps").replaceChildren(...rec.Steps.map((s, i) => make("li", { id: "step" + i },
    make("button", { type: "button", class: s.Fault ? "fault" : "", onclick: () => show(s.To) },
      make("span", { class: "at" }, clock(s.From)), make("span", {}, s.Failed ? "✕ " : "", make("b", {}, s.Text))),
    s.Input ? make("pre", {}, s.Input) : null,
    s.Failed ? make("pre", { class: "want" }, (s.Want || ["ok"]).join("\n")) : null,
    s.Failed ? make("pre", { class: "got" }, s.Got.join("\n")) : s.Got && s.Got.join() !== "ok" ? make("pre", {}, s.Got.slice(0, 8).join("\n") + (s.Got.length > 8 ? "\n…" : "")) : null)));
}

// reveal scrolls a list, and nothing but the list, to an entry of it.
function reveal(list, entry) {
  if (entry.offsetTop < list.scrollTop + list.offsetTop || entry.offsetTop + entry.offsetHeight > list.scrollTop + list.offsetTop + list.clientHeight) {
    list.scrollTop = entry.offsetTop - list.offsetTop - list.clientHeight / 2;
  }
}

function markSteps(t) {
  const here = stepAt(t), list = $("steps");
  rec.Steps.forEach((s, i) => {
    $("step" + i).className = `${i <= here ? "past" : "future"}${i === here ? " here" : ""}${s.Failed ? " failed" : ""}`;
  });
  if (here >= 0) reveal(list, $("step" + here));
}

function drawLeases(t) {
  const leases = leasesAt(t);
  if (!leases.length) return $("leases").replaceChildren(make("p", { class: "hint" }, "none"));
  $("leases").replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...["subnet", "held by", "revision", ""].map(h => make("th", {}, h)))),
    make("tbody", {}, ...leases.slice(0, 60).map(l => make("tr", {}, make("td", { class: "mono" }, l.Key), make("td", {}, l.Owner || "undecodable"), make("td", {}, l.Modified || ""), make("td", {}, l.Reserved ? "reservation" : ""))))));
}

function drawLog(t) {
  const only = $("only").checked;
  const events = only ? rec.Events.filter(e => e.Who === selected.name) : rec.Events;
  const at = last(events, t);
  const from = Math.max(0, at - 40);
  const list = make("ol", {}, ...events.slice(from, at + 8).map((e, i) => make("li", { class: `${from + i === at ? "here" : ""} ${e.Kind === "fault" ? "fault" : ""}`, style: from + i > at ? "opacity: .5" : undefined },
    make("span", { class: "at" }, live ? clock(e.At).slice(5, 19) : clock(e.At)), make("span", {}, e.Who), make("span", {}, make("b", {}, e.Kind), " ", e.Text))));
  $("log").replaceChildren(list);
  const here = list.querySelector(".here");
  if (here) reveal(list, here);
}
