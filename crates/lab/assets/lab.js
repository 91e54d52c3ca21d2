"use strict";
// Draws the lab's page from what it shows: a `LabPage` of the crate `bench`.
(() => {
  const { settings, machine, verdict } = report;

  // The records, where a scene has them, and TPC-C's database.
  function loads() {
    const isTpcc = (scene) => scene.title.startsWith("TPC-C"), { database } = settings;
    const records = `${count(settings.records)} records with keys of ${settings.key_bytes} bytes`;
    const tpcc = `TPC-C of ${counted(database.warehouses, "warehouse")} at ${database.scale_percent} %`;
    return [
      ...report.scenes.every(isTpcc) ? [] : [records],
      ...report.scenes.some(isTpcc) ? [tpcc] : [],
    ];
  }

  function head() {
    byId("title").textContent = `${report.protocols.length} ways to move half of the data, live`;
    const pace = known(settings.rate) ? `open loop at ${count(settings.rate)}/s` : "closed loop (peak throughput)";
    byId("subtitle").textContent = [
      report.protocols.join(", "),
      ...loads(),
      `${settings.clients} clients, ${pace}`,
      `${counted(report.runs, "complete run")} of ${counted(report.cells, "cell")}`,
    ].join(" \u00b7 ");
  }

  // Whether every answer was right, which runs failed, and which files were not understood.
  function judge() {
    const box = byId("verdict"), v = verdict;
    const right = v.wrong_values === 0 && v.lost_writes === 0;
    if (!right || v.unread_runs > 0 || v.failed.length > 0 || v.odd.length > 0) box.classList.add("bad");
    box.append(element("strong", {}, right ? "Every answer was right." : "There were wrong answers."),
      ` ${count(v.wrong_values)} wrong values, ${count(v.lost_writes)} lost writes, ${count(v.errors)} operations that ended in an error.`);
    if (v.unread_runs > 0) box.append(` In ${v.unread_runs} runs not every record could be read back.`);
    if (v.disturbed_runs > 0) {
      box.append(element("br"), `In ${v.disturbed_runs} runs the machine stood still for more than ${v.still_limit_ms} ms, `
        + `or its host took more than ${v.stolen_limit * 100} % of its processors: `
        + (v.left_out_runs === v.disturbed_runs ? "they are left out of all figures."
          : `${v.left_out_runs} of them are left out of all figures, the others are all that their cells have.`));
    }
    const list = (title, items) => items.length === 0 ? null
      : box.append(element("br"), element("strong", {}, title), element("ul", {}, ...items.map((item) => element("li", {}, item))));
    list("Runs that failed:", v.failed.map(({ cell, repeat, reason }) => `${cell}, run ${repeat}: ${reason}`));
    list("Files that are left out:", v.odd.map(({ file, reason }) => `${file}: ${reason}`));
  }

  // A paper's figure with the number of its source.
  const cite = (unit, { value, source }) => element("span", { class: "paper", title: report.sources[source] },
    `paper ${figure(unit, value)}`, element("sup", {}, String(source + 1)));

  function besidePapers({ what, unit, figures }) {
    const line = element("p", { class: "papers" }, `${what}: `);
    figures.forEach(({ name, ours, paper }, i) =>
      line.append(i > 0 ? " \u00b7 " : "", `${name}: ${withRange(unit, ours)}, `, cite(unit, paper)));
    return line;
  }

  function winners({ names, rows, runs }) {
    const cell = (unit, { spread, standing, paper }) => element("td", { class: known(spread) ? "number" : "number soft" },
      known(spread) ? element("b", { class: standing }, figure(unit, spread.median)) : "\u2013",
      ...(known(spread) && spread.runs > 1
        ? [element("br"), element("small", {}, `${figure(unit, spread.min)} .. ${figure(unit, spread.max)}`)] : []),
      ...(known(paper) ? [element("br"), cite(unit, paper)] : []));
    return [element("table", {},
      element("thead", {}, element("tr", {}, element("th"), ...names.map((name) => element("th", { class: "number" }, name)))),
      element("tbody", {},
        ...rows.map(({ title, unit, cells }) => element("tr", {}, element("th", {}, title), ...cells.map((it) => cell(unit, it)))),
        element("tr", {}, element("th", {}, "runs"), ...runs.map((number) => element("td", { class: "number soft" }, String(number))))))];
  }

  const meanings = (changes) => element("p", { class: "about" }, ...changes.flatMap(({ change, meaning }, i) =>
    [i > 0 ? "; " : "", element("b", {}, change), `: ${meaning}`]), ".");
  const panels = (drawn) => element("div", { class: "pair" }, ...drawn.map((panel) =>
    element("figure", {}, element("figcaption", {}, panel.impact), frontier(panel, PANEL))));

  // How each kind of part is drawn.
  const parts = {
    heading: ({ text }) => [element("h3", {}, text)],
    meanings: ({ changes }) => [meanings(changes)],
    beside_papers: (part) => [besidePapers(part)],
    winners,
    lines: lineChart,
    bars: (part) => [barChart(part)],
    frontier: (part) => [frontier(part, WIDE)],
    panels: (part) => [panels(part.panels)],
  };
  // How the table of who wins marks how a figure stands.
  const standings = () => [" ", element("b", { class: "wins" }, "Best"), ": its range meets no other's. ",
    element("b", { class: "ties" }, "Level"), ": with the best one's range in common, which is better is not known."];
  function section({ title, about, parts: shown }) {
    const isTable = shown.some(({ kind }) => kind === "winners");
    return element("section", { class: isTable ? "table wide winners" : "chart" }, element("h2", {}, title),
      element("p", { class: "about" }, about, ...(isTable ? standings() : [])),
      ...shown.flatMap((part) => parts[part.kind](part)));
  }

  function scenes() {
    const box = byId("scenes"), [first, ...others] = report.scenes;
    if (!first) return box.append(element("p", {}, "Nothing has been measured yet."));
    box.append(element("h2", { class: "scene" }, first.title), ...first.sections.map(section), ...report.across.map(section));
    for (const { title, sections } of others) {
      box.append(element("details", { class: "scene" }, element("summary", {}, title), ...sections.map(section)));
    }
    if (report.sources.length > 0) {
      box.append(element("section", { class: "table wide", id: "papers" }, element("h2", {}, "What the papers report"),
        element("ol", {}, ...report.sources.map((source) => element("li", {}, source)))));
    }
  }

  // What is measured, how, and on what.
  function about() {
    const modelled = settings.modelled, node = settings.node_cpu.toFixed(2);
    const quotas = known(modelled) ? `A node at 100 % has ${node} processors.`
      : known(machine.no_quotas) ? `This measures one shared machine, since there are no processor quotas (${machine.no_quotas}).`
        : `A node at 100 % has ${node} of a processor, the source less where it says so; the clients have the rest of the machine. `
          + "A process that has used its share up stalls for the rest of the period (2.5 ms at least): the latencies contain that.";
    if (known(modelled)) {
      byId("about").append(element("p", {}, element("strong", {}, "These machines are modelled"),
        ` (${modelled.machines}): the nodes, the coordinator and the clients run their real code on virtual time, in one thread. `
        + "Each use of a processor is charged with what it takes on the machine named here (costs_*.json), threads take turns on "
        + "modelled cores, and what they send takes its time on a modelled link. Not modelled: caches and memory bandwidth that "
        + `threads share, the system's own work, loss of packets. Of the records ${modelled.sample} are in memory, all popular ones `
        + "among them; each of the others stands for as many where records travel in bulk."));
    }
    byId("about").append(
      element("p", {}, `Two nodes and the clients are processes of one machine: ${machine.cores} processors (${machine.processor}), `
        + `${bytes(machine.memory_bytes)}, ${machine.system}. ${quotas} The load lasts ${settings.seconds} s before the move and again `
        + "after it. Every cell is measured in rounds, each round in another order; figures are medians over the runs with the range "
        + "from the least to the most. Compare ratios within a run, not absolute figures with another machine's: the papers' machines "
        + "had other networks and many times the cores, so that only shapes and ratios can be held against theirs."),
      element("p", {}, `Latencies count from the instant that an operation was ${known(settings.rate) ? "due" : "sent, on a saturated machine"}. `
        + "Extra bytes are those beyond one request and one reply for each operation and one copy of each record. MCR and SPH are what a "
        + "client knows of the move; one client here is all clients of a load thread. "
        + `Measured with sidle ${report.sidle}; the runs' own reports lie beside this page.`));
  }

  head(); judge(); scenes(); about();
})();
