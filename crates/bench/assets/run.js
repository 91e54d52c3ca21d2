"use strict";
// Draws the page of one run from its report.
(() => {
  const kill = report.kill;
  const killed = known(kill);
  // Both have a before, a middle and an after.
  const middle = known(report.migration);
  const moved = middle && !killed;
  const during = middle ? report.latency_us.during : report.latency_us.before;

  function head() {
    const what = killed
      ? `${kill.victim === "node" ? "A node" : `The ${kill.victim} of a move`} killed under load, recovered in ${time(kill.recovered_ms * 1e3)}`
      : moved
      ? `${known(report.records_moved) ? counted(report.records_moved, "record") : "Records"} moved live, by ${report.protocol ? report.protocol[0].toUpperCase() + report.protocol.slice(1) : "an unnamed protocol"}`
      : `${counted(report.records, "record")}, ${report.workload}`;
    byId("title").textContent = what;
    document.title = "Sidle: " + what;
    const load = report.load;
    const open = load.loop === "open";
    byId("subtitle").textContent = [
      `${report.workload}, ${load.distribution}`,
      `${counted(report.records, "record")} of ${load.key_bytes} + ${report.value_bytes} bytes`,
      `${counted(load.clients, load.client + " client")} with ${counted(load.outstanding, "operation")} under way`
        + (load.separate_clients === false ? ", learning together on each thread" : ", each learning for itself"),
      open ? `open loop at ${rate(load.rate)}` : "closed loop (peak throughput)",
    ].join(" \u00b7 ");
  }

  // Why a figure is missing; a reason for a group of figures is one for each.
  function reason(figure) {
    for (let name = figure; name; name = name.slice(0, Math.max(0, name.lastIndexOf(".")))) {
      if (known(report.unmeasured[name])) return report.unmeasured[name];
    }
    return "it was not measured";
  }

  function verdict() {
    const errors = Object.values(report.errors).reduce((sum, n) => sum + n, 0);
    const lost = report.lost_writes;
    const absent = report.errors.absent || 0;
    // A node that is killed answers nothing more: what it owed is no wrong answer.
    const fine = report.wrong_values === 0 && (errors === 0 || killed && absent === 0) && (lost === 0 || !known(lost));
    const wrong = report.wrong_values > 0 || (known(lost) && lost > 0);
    const box = byId("verdict");
    if (!fine) box.classList.add("bad");
    const kinds = Object.entries(report.errors).map(([kind, n]) => `${kind}: ${count(n)}`).join(", ");
    box.append(
      element("strong", {}, fine ? "Every answer was right. " : wrong ? "Not every answer was right. "
        : errors > absent ? "Not every request was answered. " : "Some reads found no record. "),
      `${counted(report.wrong_values, "wrong value")}, ` +
        (known(lost) ? counted(lost, "lost write") : `lost writes not checked (${reason("lost_writes")})`) +
        `, ${counted(errors, "error")}` + (kinds ? ` (${kinds})` : "") + ".");
  }

  function cards() {
    const box = byId("cards");
    // A figure that is missing has the reason for its note, by the figure's name in the report.
    const card = (name, figure, note, figureName, bad) => {
      const isMissing = figure === missing;
      const [number, unit] = isMissing ? ["\u2013", "not measured"] : figure.split("\u00a0");
      box.append(element("div", { class: "card" + (bad ? " bad" : "") },
        element("div", { class: "name" }, name),
        element("div", { class: "figure" }, number, unit ? element("small", {}, "\u00a0" + unit) : null),
        element("div", { class: "note" }, (isMissing ? reason(figureName) : note) || "\u00a0")));
    };
    const change = (from, to) => known(from) && known(to) && from > 0
      ? `${to >= from ? "+" : "\u2212"}${digits(Math.abs(to / from - 1) * 100)}\u00a0% against before` : "";
    const through = report.throughput;
    if (killed) {
      card("Recovered", bytes(kill.recovered_bytes), `${time(kill.recovered_ms * 1e3)} after the kill, from copies of its log`);
      card("Taken over", time(kill.taken_over_ms * 1e3), "after the kill: others own what it had");
    }
    if (moved) {
      card("Moved", bytes(report.bytes_moved), known(report.seconds)
        ? `in ${time(report.seconds * 1e6)}${known(report.mb_per_s) ? `, ${digits(report.mb_per_s)}\u00a0MB/s` : ""}` : "", "bytes_moved");
    }
    if (middle) {
      card("Throughput before", rate(through.before), "median window of 100 ms", "throughput.before");
      card("Throughput during", rate(through.during), ["mean", change(through.before, through.during)].filter(Boolean).join(", "), "throughput.during");
      card("Worst window during", rate(through.during_worst_window), change(through.before, through.during_worst_window), "throughput.during_worst_window");
      card("Throughput after", rate(through.after), ["median window", change(through.before, through.after)].filter(Boolean).join(", "), "throughput.after");
    } else {
      card("Throughput", rate(through.before), "median window of 100 ms", "throughput.before");
    }
    const read = during.reads, was = report.latency_us.before.reads;
    if (read) card(middle ? "Read p99 during" : "Read p99", time(read.p99), middle && was ? `${time(was.p99)} before` : `median ${time(read.p50)}`);
    const write = during.writes, wrote = report.latency_us.before.writes;
    if (write) card(middle ? "Write p99 during" : "Write p99", time(write.p99), middle && wrote ? `${time(wrote.p99)} before` : `median ${time(write.p50)}`);
    if (middle) {
      const gap = report.longest_gap_ms, prober = `of a key of the ${killed ? "dead node" : "moving range"} was answered to one prober`;
      card("Longest time without a read", millis(gap.reads), `no read ${prober}`, "longest_gap_ms.reads");
      card("Longest time without a write", millis(gap.writes), `no write ${prober}`, "longest_gap_ms.writes");
    }
    if (moved) {
      const extra = report.extra_bytes;
      card("Extra bytes", bytes(extra.client_side),
        `at the clients; between nodes: ${bytes(extra.server_side)}`, "extra_bytes.client_side");
    }
    card("Lost writes", known(report.lost_writes) ? count(report.lost_writes) : missing,
      "every acknowledged write was read back", "lost_writes", report.lost_writes > 0);
  }

  // Every row of cards is full: the first card takes what the others leave.
  function arrange() {
    const box = byId("cards");
    const columns = getComputedStyle(box).gridTemplateColumns.split(" ").length;
    box.children[0].style.gridColumn = `span ${columns - (box.children.length - 1) % columns}`;
  }

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
  const points = report.timeline;
  const seconds = points.map((point) => point.at_ms / 1000);
  const perSecond = (name) => points.map((point) => known(point[name]) ? point[name] * 10 : null);
  const running = (name) => { let sum = 0; return points.map((point) => known(point[name]) ? (sum += point[name]) : null); };
  const has = (name) => points.some((point) => known(point[name]));

  const charts = [
    { title: "Throughput", about: "Operations per second, in windows of 100 ms.", from0: true, unit: rate,
      series: [{ label: "operations", data: perSecond("operations"), color: "blue", fill: true }] },
    { title: "Latency", about: report.load.loop === "open"
        ? "Per operation, from the instant at which it was due. Logarithmic."
        : "Per operation, from the instant at which it was sent: the closed loop saturates the machine. Logarithmic.",
      log: true, unit: time, series: [
        { label: "p99.9", data: points.map((p) => p.p999), color: "purple", dash: [2, 3] },
        { label: "p99", data: points.map((p) => p.p99), color: "orange", dash: [7, 4] },
        { label: "median", data: points.map((p) => p.p50), color: "blue" }] },
    { title: killed ? "Bytes recovered" : "Bytes moved", about: killed ? "Bytes of records that their new owners have put in from copies of the log." : "Bytes of records that have arrived at the target.", from0: true, unit: bytes, skip: !has("moved_bytes"),
      series: [{ label: killed ? "recovered so far" : "moved so far", data: running("moved_bytes"), color: "teal", fill: true }] },
    { title: "Extra bytes", about: "Bytes per second between clients and nodes beyond one request and reply per operation.", from0: true,
      unit: (x) => known(x) ? bytes(x) + "/s" : missing, skip: !has("extra_bytes"),
      series: [{ label: "extra", data: perSecond("extra_bytes"), color: "orange", fill: true }] },
  ].filter((chart) => !chart.skip);

  // Shades the migration under the lines.
  const shade = { hooks: { drawClear: (u) => {
    if (!middle) return;
    const left = u.valToPos(Math.max(report.migration.from_ms / 1000, u.scales.x.min), "x", true);
    const right = u.valToPos(Math.min(report.migration.to_ms / 1000, u.scales.x.max), "x", true);
    if (right <= left) return;
    const { ctx, bbox } = u;
    ctx.save();
    ctx.fillStyle = color("shade");
    ctx.fillRect(left, bbox.top, right - left, bbox.height);
    ctx.fillStyle = color("shade-edge");
    for (const x of [left, right]) ctx.fillRect(Math.round(x), bbox.top, Math.max(1, devicePixelRatio), bbox.height);
    ctx.restore();
  } } };

  const tooltip = (chart) => {
    const box = element("div", { class: "tooltip" });
    return { hooks: {
      init: (u) => u.over.append(box),
      setCursor: (u) => {
        const { idx, left, top } = u.cursor;
        if (!known(idx) || left < 0 || u.over.matches(":hover") === false) { box.style.display = "none"; return; }
        box.replaceChildren(element("div", {}, `${seconds[idx].toFixed(1)} s`));
        chart.series.forEach((series, i) => {
          if (!u.series[i + 1].show) return;
          const mark = element("i");
          mark.style.background = color(series.color);
          box.append(element("div", {}, mark, `${series.label}: ${known(series.data[idx]) ? chart.unit(series.data[idx]) : "nothing ended"}`));
        });
        box.style.display = "block";
        const flip = left > u.over.clientWidth - box.offsetWidth - 24;
        box.style.left = (flip ? left - box.offsetWidth - 14 : left + 14) + "px";
        box.style.top = Math.min(Math.max(top - 12, 0), Math.max(u.over.clientHeight - box.offsetHeight, 0)) + "px";
      } } };
  };

  let drawn = [];
  function drawCharts() {
    drawn.forEach((u) => u.destroy());
    drawn = [];
    const box = byId("charts");
    box.replaceChildren();
    for (const chart of charts) {
      const panel = element("div", { class: "chart" }, element("h2", {}, chart.title),
        element("p", { class: "about" }, chart.about + " ", middle ? element("span", { class: "key" }) : null, killed ? " from the kill to the end of the recovery" : moved ? " while records moved" : null));
      box.append(panel);
      const axis = { stroke: color("soft"), grid: { stroke: color("grid"), width: 1 }, ticks: { stroke: color("grid"), width: 1 }, font: "12px system-ui, sans-serif" };
      const values = chart.series.flatMap((series) => series.data).filter((x) => known(x) && x > 0);
      const lowest = values.length ? Math.min(...values) : 1, highest = values.length ? Math.max(...values) : 10;
      const u = new uPlot({
        width: panel.clientWidth - 32, height: 230, cursor: { sync: { key: "run" }, points: { size: 7 } },
        plugins: [shade, tooltip(chart)],
        scales: { x: { time: false }, y: chart.log
          ? { distr: 3, log: 10, range: () => [10 ** Math.floor(Math.log10(lowest)), 10 ** Math.ceil(Math.log10(highest * 1.001))] }
          : { range: () => [0, highest * 1.08] } },
        axes: [
          { ...axis, values: (u, at) => at.map((x) => trimmed(digits(x) + " s")), space: 70 },
          { ...axis, size: 78, values: (u, at) => at.map((y) => known(y) && (!chart.log || Math.log10(y) % 1 === 0) ? trimmed(chart.unit(y)) : ""), filter: chart.log ? (u, at) => at : undefined },
        ],
        series: [
          { label: "at", value: (u, x) => known(x) ? x.toFixed(1) + " s" : "\u2013" },
          ...chart.series.map((series) => ({
            label: series.label, stroke: color(series.color), width: 1.75, dash: series.dash, spanGaps: false,
            fill: series.fill ? color(series.color) + "22" : undefined, points: { show: false },
            value: (u, y) => known(y) ? chart.unit(y) : "\u2013",
          })),
        ],
      }, [seconds, ...chart.series.map((series) => series.data)], panel);
      drawn.push(u);
    }
  }

  function tables() {
    const box = byId("tables");
    const table = (title, heads, rows, wide) => {
      // A figure and its unit stay on one line.
      const kind = (cell) => heads ? "number" : cell.includes(" ") ? null : "figure";
      const line = (cells, name) => element("tr", {}, ...cells.map((cell, i) =>
        element(i === 0 || name === "th" ? "th" : "td", i > 0 ? { class: kind(cell) } : {}, cell)));
      box.append(element("div", { class: "table" + (wide ? " wide" : "") }, element("h2", {}, title),
        element("table", heads ? {} : { class: "facts" }, heads ? element("thead", {}, line(heads, "th")) : null,
          element("tbody", {}, ...rows.map((row) => line(row, "td"))))));
    };
    const rows = [];
    for (const [part, words] of [["before", middle ? "before" : "whole run"], ["during", "during"], ["after", "after"]]) {
      for (const kind of ["reads", "writes"]) {
        const p = report.latency_us[part][kind];
        if (p) rows.push([`${kind}, ${words}`, time(p.p50), time(p.p99), time(p.p999), time(p.max)]);
      }
    }
    table("Latency", ["", "median", "p99", "p99.9", "longest"], rows, true);
    if (moved) {
      table("The move", null, [
        ["Records", count(report.records_moved)], ["Bytes", bytes(report.bytes_moved)],
        ["Time", known(report.seconds) ? time(report.seconds * 1e6) : missing],
        ["Rate", known(report.mb_per_s) ? digits(report.mb_per_s) + "\u00a0MB/s" : missing],
        ["Longest pause of all writes to moving keys", millis(report.write_pause_ms)],
        ["Reads that asked both nodes", count(report.double_reads)],
        ["Reads that asked the target only", count(report.single_target_reads)],
        ["Reads that asked the source only", count(report.single_source_reads)],
        ["Priority pulls", count(report.priority_pulls)], ["Sampled pulls", count(report.samp_pulls)],
        ["Tracking look-up", known(report.client.mcr_sph_lookup_ns) ? digits(report.client.mcr_sph_lookup_ns) + "\u00a0ns" : missing],
        ["Tracking memory, largest client", bytes(report.client.sph_bytes_max)],
      ]);
    }
    if (killed) {
      table("The kill", null, [
        ["Who", kill.victim === "node" ? "a node with half of the data" : `the ${kill.victim} of a move by ${report.protocol}`],
        ["When", time(kill.at_ms * 1e3) + " after the start"],
        ["Taken over", time(kill.taken_over_ms * 1e3) + " after the kill"],
        ["Recovered", time(kill.recovered_ms * 1e3) + " after the kill"],
        ["The move's end", known(kill.migration_end) ? kill.migration_end : "there was none"],
        ["Longest pause of all writes to its keys", millis(report.write_pause_ms)],
      ]);
    }
    const limits = report.machine.cpu_limits;
    const host = report.machine.disturbance || {};
    table("The machine", null, [
      ["Processors", count(report.machine.cores)],
      ["Quotas", limits ? Object.entries(limits).map(([name, share]) => `${name} ${digits(share * 100)}\u00a0%`).join(", ")
        + ": a process that uses its share up stalls for the rest of the period, which shows in the latencies"
        : "none: nodes and clients share the machine"],
      ["Taken by its host", known(host.stolen) ? digits(host.stolen * 100) + "\u00a0% of the processors" : missing],
      ["Stood still", known(host.longest_still_ms) ? "for " + digits(host.longest_still_ms) + "\u00a0ms at most, "
        + digits(host.still_ms) + "\u00a0ms in all" : missing],
      ...(moved ? ["source", "target", "clients"] : ["clients"]).map((name) => [`Processor time, ${name}`,
        known(report.cpu_seconds[name]) ? digits(report.cpu_seconds[name]) + "\u00a0s" : missing]),
      ["Seed", String(report.seed)],
    ]);
    const unmeasured = Object.entries(report.unmeasured);
    if (unmeasured.length) table("Not measured", null, unmeasured, true);
  }

  head(); verdict(); cards(); arrange(); drawCharts(); tables();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
  let resizing = 0;
  addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(() => { arrange(); drawCharts(); }, 120); });
})();
