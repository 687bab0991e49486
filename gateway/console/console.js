"use strict";
// Polls /ui/state and writes text nodes only; nothing received is ever read as markup.

const period = 2000;
const byId = (id) => document.getElementById(id);
const number = new Intl.NumberFormat("en-US");

function say(id, value) {
  byId(id).textContent = typeof value === "number" ? number.format(value) : value ?? "";
}

function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function showReady(ready, reasons) {
  const pill = byId("ready");
  pill.textContent = ready ? "ready" : "not ready";
  pill.className = ready ? "pill good" : "pill bad";
  const list = byId("reasons");
  list.hidden = reasons.length === 0;
  list.replaceChildren(...reasons.map((reason) => element("li", reason)));
}

function showRoles(roles) {
  const names = Object.keys(roles).sort();
  const rows = names.map((name) => {
    const row = document.createElement("tr");
    row.append(element("td", name || "(no role)"));
    for (const direction of ["input", "output", "cache_creation", "cache_read"]) {
      row.append(element("td", number.format(roles[name][direction] ?? 0)));
    }
    return row;
  });
  if (rows.length === 0) {
    const row = document.createElement("tr");
    const cell = element("td", "No call has been answered yet.");
    cell.colSpan = 5;
    cell.className = "quiet";
    row.append(cell);
    rows.push(row);
  }
  byId("roles").replaceChildren(...rows);
}

function showKinds(kinds) {
  const pairs = Object.entries(kinds).sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
  const most = pairs.length ? pairs[0][1] : 1;
  const cells = pairs.flatMap(([kind, count]) => {
    const bar = document.createElement("meter");
    bar.max = most;
    bar.value = count;
    return [element("span", kind), bar, element("span", number.format(count))];
  });
  byId("kinds").replaceChildren(...(cells.length ? cells : [element("span", "None yet.")]));
}

// How the head leaves the machine: one line for each way out.
function showAnchors(anchors) {
  const lines = anchors.map((way) => {
    const wrong = way.alarm || way.trouble;
    const neighbors = way.kind === "neighbor";
    const size = `${number.format(way.size)} ${neighbors ? "others seen" : "records"}`;
    return element("li", `${way.kind} ${way.name}: ${wrong || size}`);
  });
  byId("anchors").replaceChildren(...lines);
}

function show(state) {
  showReady(state.ready, state.reasons);
  showRoles(state.tokens);
  showKinds(state.redactions);
  say("version", state.version);
  say("calls", state.calls);
  say("in-flight", state.in_flight);
  say("refused", state.refused);
  say("redacted", Object.values(state.redactions).reduce((sum, count) => sum + count, 0));
  say("records", state.ledger.size);
  say("origin", state.ledger.origin);
  say("size", state.ledger.size);
  say("root", state.ledger.root);
  say("vkey", state.ledger.vkey);
  say("checkpoint", state.ledger.checkpoint);
  say("verify", state.ledger.verify);
  showAnchors(state.ledger.anchors);
}

async function poll() {
  try {
    const answer = await fetch("/ui/state", { cache: "no-store" });
    if (!answer.ok) throw new Error(String(answer.status));
    show(await answer.json());
  } catch {
    showReady(false, ["The gateway does not answer; it may have stopped."]);
  }
  setTimeout(poll, period);
}

poll();
