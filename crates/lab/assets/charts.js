"use strict";
// The lab's charts as SVG: lines with bands, bars with whiskers, duration against impact. They are pictures that need no
// pointer, take their colours from the style sheet, and have their size in folded parts of the page and on paper too.

// How many colours the style sheet has for protocols: each keeps its own on the whole page.
const COLOURS = 8;
const colour = (protocol) => Math.max(report.protocols.indexOf(protocol), 0) % COLOURS;

// ---- Figures by their units

const units = {
  ratio: (x) => x.toFixed(x >= 99.5 ? 0 : x >= 9.95 ? 1 : 2),
  share: (x) => (x * 100).toFixed(1) + "\u00a0%",
  seconds: (x) => x.toFixed(2) + "\u00a0s",
  milliseconds: (x) => x.toFixed(1) + "\u00a0ms",
  bytes,
  microseconds: time,
  nanoseconds: (x) => x.toFixed(0) + "\u00a0ns",
  "operations/s": (x) => count(Math.round(x)) + "/s",
};
const figure = (unit, x) => units[unit](x);
// A median, with the range where several runs have one.
const withRange = (unit, { median, min, max, runs }) => runs === 1 ? figure(unit, median)
  : `${figure(unit, median)} (${figure(unit, min)} .. ${figure(unit, max)})`;
// Beside an axis. Without a unit: a plain number.
const tick = (unit) => (x) => {
  const value = Math.abs(x) < 1e-9 ? 0 : x;
  return trimmed(!unit || unit === "ratio" ? value.toFixed(2) : figure(unit, value));
};

// ---- Scales

// The least and the most of some values; nothing of none.
const bounds = (values) => values.length === 0 ? null
  : values.reduce(([low, high], x) => [Math.min(low, x), Math.max(high, x)], [Infinity, -Infinity]);

// Round numbers within a range, about so many.
function ticks(from, to, about) {
  if (to <= from) return [from];
  const rough = (to - from) / Math.max(about, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= rough * 0.999) || 10 * power;
  const first = Math.ceil(from / step - 1e-9), last = Math.floor(to / step + 1e-9);
  return Array.from({ length: Math.max(last - first + 1, 0) }, (_, i) => (first + i) * step);
}

// Powers of ten within a range, with 2 and 5 times them where there are few.
function logTicks(from, to) {
  const low = Math.floor(Math.log10(from)), high = Math.ceil(Math.log10(to));
  const leading = high - low > 3 ? [1] : [1, 2, 5];
  const all = [];
  for (let power = low; power <= high; power++) all.push(...leading.map((digit) => digit * 10 ** power));
  return all.filter((x) => x >= from * 0.999 && x <= to * 1.001);
}

// From values to coordinates. What is beyond the ends lies a little beyond them.
const onto = (start, end, share) => start + Math.min(Math.max(share, -0.5), 1.5) * (end - start);
function linearScale(from, most, start, end) {
  const to = most > from ? most : from + 1;
  return { at: (x) => onto(start, end, (x - from) / (to - from)), ticks: (about) => ticks(from, to, about) };
}
// Equal ratios the same distance apart.
function logScale(least, most, start, end) {
  const from = Math.max(least, 1e-9), to = Math.max(most, from * 1.5);
  const at = (x) => onto(start, end, Math.log(Math.max(x, from * 1e-3) / from) / Math.log(to / from));
  // Within less than a factor of two or so there may be no such round numbers.
  const ticksOf = (about) => { const round = logTicks(from, to); return round.length > 1 ? round : ticks(from, to, about); };
  return { at, ticks: ticksOf };
}

// ---- SVG

const svg = (name, attributes, ...children) =>
  filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
const px = (x) => x.toFixed(1);
const titled = (words) => svg("title", {}, words);
const plot = (width, height, label, ...children) => element("div", { class: "plot" },
  svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...children));
const horizontal = (name, left, right, y) => svg("line", { class: name, x1: left, x2: right, y1: px(y), y2: px(y) });
const vertical = (name, x, top, bottom) => svg("line", { class: name, x1: px(x), x2: px(x), y1: top, y2: bottom });
const words = (name, x, y, anchor, text) => svg("text", { class: name, x, y: px(y), "text-anchor": anchor }, text);
const dot = (name, protocol, x, y, radius, title) =>
  svg("circle", { class: `${name} f${colour(protocol)}`, cx: px(x), cy: px(y), r: radius }, titled(title));

// Values beside the y axis, each with a thin line from left to right.
const yTicks = (y, values, left, right, show) => values.flatMap((value) => [
  horizontal("grid", left, right, y.at(value)), words("tick", left - 8, y.at(value) + 4, "end", show(value))]);
// Values below the x axis.
const xTicks = (x, values, bottom, show) => values.flatMap((value) => [
  vertical("grid", x.at(value), bottom, bottom + 5), words("tick", px(x.at(value)), bottom + 18, "middle", show(value))]);

// ---- Lines: medians, with a band from the least to the most of the runs. A point is [x, median, min, max].

const LINES = { width: 1080, height: 300, left: 74, right: 1066, top: 10, bottom: 258 };
// What a band may add above the highest median before it is cut off.
const BAND_ROOM = 1.35;
// A line that rises so many times as high as all others is cut off, so that they can be seen; what is then left above them.
const OUTLIER = 4, OUTLIER_ROOM = 1.6;

// The line that rises far above all others: its name, how high, and how high the others.
function outlier(lines) {
  const peaks = lines.map((line) => [line.name, Math.max(0, ...line.points.map(([, median]) => median))]);
  const [highest, next] = peaks.sort(([, a], [, b]) => b - a);
  return next && next[1] > 0 && highest[1] > OUTLIER * next[1]
    ? { name: highest[0], peak: highest[1], others: next[1] } : null;
}

// What both axes cover.
function linesReach({ x, y, lines }) {
  const points = lines.flatMap((line) => line.points);
  let [left, right] = x.kind === "time" ? [x.from, x.to] : bounds(points.map(([at]) => at));
  // Marks at the ends are to be seen whole.
  const room = x.kind === "time" ? 0 : (right - left) * 0.015;
  const medians = points.map(([, median]) => median);
  const [low, high] = bounds(points.flatMap(([, median, min]) => [median, Math.max(min, 0)]));
  const highest = Math.max(high, bounds(points.map(([, , , max]) => max))[1]);
  const above = y.is_log ? null : outlier(lines);
  const top = above ? above.others * OUTLIER_ROOM : Math.max(Math.min(highest, high * BAND_ROOM), (y.reference || 0) * 1.05);
  const least = (bounds(medians.filter((median) => median > 0)) || [high])[0];
  return { left: left - room, right: right + room, bottom: Math.min(least, Math.max(low, least * 0.7)), top, above };
}

// How high a line is drawn at x, between two of its points.
function heightAt(points, at, y) {
  for (let i = 1; i < points.length; i++) {
    const [[from, low], [to, high]] = [points[i - 1], points[i]];
    if (at >= from && at <= to) return y.at(low) + (y.at(high) - y.at(low)) * ((at - from) / (to - from));
  }
  return null;
}

function lineChart(chart) {
  const { x: axis, y: { label, unit, is_log, reference }, lines } = chart;
  const { width, height, left, right, top, bottom } = LINES;
  const reach = linesReach(chart), show = tick(unit);
  const x = linearScale(reach.left, reach.right, left, right);
  const y = is_log ? logScale(reach.bottom, reach.top, bottom, top)
    : linearScale(0, reach.top > 0 ? reach.top * 1.03 : 1, bottom, top);
  const isTime = axis.kind === "time";
  const spot = (at, value) => `${px(x.at(at))},${px(y.at(value))}`;
  const band = ({ protocol, points, runs }) => runs < 2 || points.length < 2 ? null
    : svg("polygon", { class: `band f${colour(protocol)}`, points: [
      ...points.map(([at, , , max]) => spot(at, max)), ...points.map(([at, , min]) => spot(at, min)).reverse()].join(" ") });
  const line = ({ name, protocol, points, end }) => {
    const parts = [svg("polyline", { class: `line s${colour(protocol)}`,
      points: points.map(([at, median]) => spot(at, median)).join(" ") }, titled(name))];
    if (!isTime) parts.push(...points.map(([at, median, min, max]) => dot("mark", protocol, x.at(at), y.at(median), 4,
      `${name}: ${show(median)} (${show(min)}..${show(max)})`)));
    const endHeight = known(end) ? heightAt(points, end, y) : null;
    if (known(endHeight)) parts.push(dot("end", protocol, x.at(end), endHeight, 5, `${name}: the move ended after ${end.toFixed(2)} s`));
    return parts;
  };
  const inner = { x: left, y: top, width: right - left, height: bottom - top,
    viewBox: `${left} ${top} ${right - left} ${bottom - top}` };
  return [
    legend(lines),
    plot(width, height, label,
      ...yTicks(y, y.ticks(5), left, right, show),
      ...xTicks(x, isTime ? x.ticks(10) : axis.values, bottom, tick(isTime ? "seconds" : null)),
      known(reference) ? horizontal("reference", left, right, y.at(reference)) : null,
      isTime && reach.left < 0 && reach.right > 0 ? vertical("start", x.at(0), top, bottom) : null,
      words("label", right, height - 6, "end", isTime ? "time from the start of the move; a dot is its end" : axis.label),
      svg("svg", inner, ...lines.map(band), ...lines.flatMap(line))),
    reach.above ? element("p", { class: "papers" }, `${reach.above.name} rises to ${show(reach.above.peak)}, beyond the picture.`) : null,
  ];
}

// Names with the lines' looks.
const legend = (lines) => element("p", { class: "legend" }, ...lines.map(({ name, protocol }) => element("span", {},
  svg("svg", { width: 26, height: 10, "aria-hidden": "true" },
    svg("line", { class: `line s${colour(protocol)}`, x1: 0, x2: 26, y1: 5, y2: 5 })), name)));

// ---- Bars with whiskers, one below the other, and a paper's figure as a diamond

const BARS = { width: 1080, left: 330, right: 910, row: 24, gap: 12 };
// What a figure takes beside its bar.
const VALUE_ROOM = 70;

// Each bar with the height of its middle, and the height of all.
function barRows(groups) {
  let y = 4;
  const rows = groups.flatMap((group, i) => {
    y += i > 0 ? BARS.gap : 0;
    return group.map((bar) => { y += BARS.row; return { bar, middle: y - BARS.row / 2 }; });
  });
  return { rows, height: y + 4 };
}

function barChart({ unit, label, reference, groups }) {
  const { rows, height } = barRows(groups);
  const most = Math.max(0, reference || 0, ...groups.flat().flatMap(({ spread, paper }) => [spread.max, paper ? paper.value : 0]));
  const x = linearScale(0, most > 0 ? most : 1, BARS.left, BARS.right);
  return plot(BARS.width, height, label, known(reference) ? vertical("reference", x.at(reference), 0, height) : null,
    ...rows.flatMap(({ bar, middle }) => barRow(bar, middle, x, unit)));
}

function barRow({ label, protocol, spread: { median, min, max, runs }, paper }, middle, x, unit) {
  const baseline = middle + 4.5;
  const parts = [
    words("name", BARS.left - 10, baseline, "end", label),
    svg("rect", { class: `bar f${colour(protocol)}`, x: BARS.left, y: px(middle - 7),
      width: px(Math.max(x.at(median) - BARS.left, 0.5)), height: 14 }),
  ];
  let right = x.at(median);
  if (runs > 1) {
    const [from, to, top] = [px(x.at(min)), px(x.at(max)), px(middle - 4)];
    parts.push(svg("path", { class: "whisker", d: `M${from} ${px(middle)}H${to}M${from} ${top}v8M${to} ${top}v8` }));
    right = Math.max(right, x.at(max));
  }
  let value = figure(unit, median);
  if (paper) {
    const at = x.at(paper.value), shown = figure(unit, paper.value);
    parts.push(svg("path", { class: "paper", d: `M${px(at)} ${px(middle - 6)}l5 6l-5 6l-5 -6z` },
      titled(`paper: ${shown} (${report.sources[paper.source]})`)));
    // Each figure beside what it belongs to, where there is room for both.
    if (at > right + VALUE_ROOM) {
      parts.push(words("value", px(at + 14), baseline, null, `paper ${shown}`));
    } else {
      right = Math.max(right, at + 6);
      value += ` (paper ${shown})`;
    }
  }
  return [...parts, words("value", px(right + 8), baseline, null, value)];
}

// ---- Duration against impact: a point for each variant or policy, its name at the right, tied to it

const FRONTIER = { left: 56, top: 12, below: 42, nameHeight: 17 };
const WIDE = { width: 1080, height: 380, names: 300 };
const PANEL = { width: 530, height: 250, names: 122 };

// How high the names of points at these heights stand, which are in order from the top: as near to the point's own height as
// the names above and below allow.
function nameHeights(heights, bottom) {
  const { top, nameHeight } = FRONTIER;
  const room = Math.max(bottom - top - nameHeight * heights.length, 0);
  let above = top;
  return heights.map((height, i) => {
    const least = above + (i > 0 ? nameHeight : 4), most = Math.max(top + room + nameHeight * i, above + nameHeight);
    above = Math.min(Math.max(height, least), most);
    return above;
  });
}

function frontier({ impact, better, is_log, reach, points }, { width, height, names }) {
  const { left, top, below } = FRONTIER;
  const right = width - names, bottom = height - below;
  const scale = ([low, high], start, end) => is_log ? logScale(low / 1.08, high * 1.08, start, end)
    : linearScale(0, high * 1.04, start, end);
  const x = scale(reach.seconds, left, right), y = scale(reach.impact, bottom, top);
  const sorted = [...points].sort((a, b) => b.impact.median - a.impact.median);
  const nameYs = nameHeights(sorted.map((point) => y.at(point.impact.median)), bottom);
  const point = ({ name, protocol, is_plain, seconds, impact: felt }, i) => {
    const atX = x.at(seconds.median), atY = y.at(felt.median);
    return [
      svg("path", { class: "whisker",
        d: `M${px(x.at(seconds.min))} ${px(atY)}H${px(x.at(seconds.max))}M${px(atX)} ${px(y.at(felt.min))}V${px(y.at(felt.max))}` }),
      svg("path", { class: "tie", d: `M${px(atX + 7)} ${px(atY)}L${right + 12} ${px(nameYs[i])}` }),
      dot("mark", protocol, atX, atY, is_plain ? 7 : 4.5, `${name}: ${seconds.median.toFixed(2)} s, ${impact} ${felt.median.toFixed(2)}`),
      words(is_plain ? "name strong" : "name", right + 16, nameYs[i] + 4.5, null, name),
    ];
  };
  return plot(width, height, `duration against ${impact}`,
    ...yTicks(y, y.ticks(5), left, right, tick("ratio")),
    ...xTicks(x, x.ticks(Math.floor(right / 90)), bottom, tick("seconds")),
    horizontal("reference", left, right, y.at(1)),
    words("label", right, height - 6, "end", `duration of the move; ${better} is better`),
    ...sorted.flatMap(point));
}
