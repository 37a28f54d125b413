"use strict";
// Texts of models and programs reach the page by textContent alone: nothing they hold is read as HTML.
(function () {
  const { kinds, runs } = JSON.parse(document.getElementById("data").textContent);
  const place = document.getElementById("browser");
  if (!place || !runs.length) return;

  const PHASES = { idle: "#8a8a8a", sampling: "#2166ac", judging: "#1b7837", rewarding: "#01665e", preparing: "#762a83", updating: "#b35806",
    rollout: "#2166ac", update: "#b35806" };
  const TOTALS = ["rollout", "update"];  // where nothing finer was measured

  function make(tag, className, text, parent) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    if (text != null) element.textContent = text;
    if (parent) parent.appendChild(element);
    return element;
  }

  function chooser(name, parent, onChange) {
    const label = make("label", "", name + " ", parent);
    const select = make("select", "", null, label);
    select.id = "choose-" + name;
    select.addEventListener("change", onChange);
    return select;
  }

  function fill(select, names) {
    const before = select.value;
    select.replaceChildren(...names.map((name, i) => {
      const option = make("option", "", name);
      option.value = String(i);
      return option;
    }));
    if (before && Number(before) < names.length) select.value = before;
  }

  const controls = make("div", "controls", null, place);
  const run = chooser("run", controls, () => choose("run"));
  const rollout = chooser("rollout", controls, () => choose("rollout"));
  const group = chooser("problem", controls, draw);
  const colour = chooser("colour", controls, draw);
  const scale = make("span", "scale", "", controls);
  const view = make("div", "view", null, place);

  function choose(changed) {
    const rollouts = runs[run.value || 0].rollouts;
    if (changed === "run") {
      fill(rollout, rollouts.map((r) => `${r.number}`));
      if (!rollout.dataset.set) rollout.value = String(rollouts.length - 1);
      rollout.dataset.set = "1";
    }
    const groups = rollouts[rollout.value].groups;
    const spread = (g) => {
      const known = g.rows.map((r) => r.reward).filter((r) => r != null);
      return known.length ? Math.max(...known) - Math.min(...known) : -1;
    };
    fill(group, groups.map((g) => `${g.task} (${g.rows.map((r) => (r.reward == null ? "?" : format(r.reward))).join(" ")})`));
    group.value = String(groups.reduce((best, g, i) => (spread(g) > spread(groups[best]) ? i : best), 0));
    const known = Object.keys(kinds).filter((k) => groups.some((g) => g.rows.some((r) => r.values[k])));
    const chosen = colour.selectedOptions.length ? colour.selectedOptions[0].textContent : "credit";
    fill(colour, known);
    colour.value = String(Math.max(0, known.indexOf(chosen)));
    draw();
  }

  function format(value) {
    return value == null ? "none" : String(Number(value.toPrecision(3)));
  }

  function draw() {
    const whole = runs[run.value].rollouts[rollout.value];
    const shown = whole.groups[group.value || 0];
    const name = colour.selectedOptions.length ? colour.selectedOptions[0].textContent : null;
    view.replaceChildren();
    make("div", "scale", `${whole.rows} rows in this rollout; ${runs[run.value].recorded} rollouts were recorded, ` +
      `${runs[run.value].rollouts.length} of them are in this page`, view);
    if (!shown) return timeline(whole.seconds);
    make("pre", "prompt", shown.prompt, view);
    const largest = Math.max(1e-9, ...shown.rows.flatMap((row) => columns(row).map((i) => Math.abs(value(name, row, i) || 0))));
    scale.textContent = name ? `${kinds[name].says}; full colour at ${format(largest)}` +
      (kinds[name].signed ? ", blue above 0, orange below" : "") : "no values of tokens were kept";
    const rows = make("div", "columns", null, view);
    const failedFirst = [...shown.rows].sort((a, b) => (a.verdict === "passed") - (b.verdict === "passed"));
    for (const row of failedFirst) column(row, name, largest, rows);
    timeline(whole.seconds);
  }

  const columns = (row) => row.turns.flatMap((turn) => turn.pieces.map((_, i) => turn.start + i));

  function value(name, row, i) {
    return name && row.values[name] ? row.values[name][i] : null;
  }

  function timeline(seconds) {
    const parts = Object.keys(PHASES).filter((name) => seconds[name] > 0);
    const fine = parts.filter((name) => !TOTALS.includes(name));
    const names = fine.length ? fine : parts;
    if (!names.length) return;
    const bar = make("div", "timeline", null, view);
    const legend = make("ul", "legend", null, view);
    for (const name of names) {
      const text = `${name} ${format(seconds[name])} s`;
      const part = make("div", "", null, bar);
      part.title = text;
      part.style.flex = String(seconds[name]);
      const entry = make("li", "", null, legend);
      const colour = make("i", "", null, entry);
      entry.append(text);
      part.style.background = colour.style.background = PHASES[name];
    }
  }

  function column(row, name, largest, parent) {
    const box = make("div", "column", null, parent);
    const judged = runs[run.value].judged;  // without programs there is no verdict
    const verdict = !judged ? "" : row.verdict === "passed" ? "passed" : "failed";
    make("h4", verdict, `row ${row.row}: reward ${format(row.reward)}${judged ? `, ${row.ending}` : ""}`, box);
    make("div", "terms", Object.entries(row.terms).map(([term, found]) => `${term} ${format(found)}`).join("  "), box);
    row.turns.forEach((turn, number) => {
      if (row.turns.length > 1) make("div", "word", `turn ${number + 1}: ${turn.verdict}`, box);
      const text = make("pre", "completion", null, box);
      turn.pieces.forEach((piece, i) => token(row, turn.start + i, piece, name, largest, text));
      if (turn.stop === "length") make("span", "end", " (cut at the token limit)", text);
      if (turn.message) {
        make("div", "word", "the environment", box);
        make("pre", "environment", turn.message, box);
      }
    });
    for (const [heading, words] of row.words) {
      make("div", "word", heading, box);
      make("pre", "words", words, box);
    }
  }

  function token(row, i, piece, name, largest, parent) {
    const part = make("span", "token", piece.trim() ? piece : piece.replaceAll("\n", "\u21b5\n") || "\u220e", parent);
    if (row.failing.includes(i)) part.classList.add("failing");
    const found = value(name, row, i);
    if (found != null) {
      const share = Math.min(1, Math.abs(found) / largest) * 0.75;
      const hue = !kinds[name].signed ? "118, 42, 131" : found >= 0 ? "33, 102, 172" : "230, 97, 1";
      part.style.backgroundColor = `rgba(${hue}, ${share.toFixed(3)})`;
    }
    part.title = [`token ${i}`, ...Object.keys(row.values).map((k) => `${k} ${format(value(k, row, i))}`)].join("\n");
  }

  fill(run, runs.map((r) => r.name));
  choose("run");
})();
