"use strict";
// What all pages share: the report, figures as people read them, elements.
// Units: microseconds, bytes, operations per second, milliseconds.

const report = JSON.parse(document.getElementById("report").textContent);
const known = (x) => x !== null && x !== undefined;
const missing = "not measured";

// Three significant digits, grouped thousands.
const digits = (x) => {
  if (x === 0) return "0";
  const places = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(x))));
  return x.toLocaleString("en", { minimumFractionDigits: Math.min(places, 6), maximumFractionDigits: Math.min(places, 6) });
};
// On axes, without zeros that say nothing.
const trimmed = (text) => text.replace(/(\.\d*?)0+(?=\s|$)/, "$1").replace(/\.(?=\s|$)/, "");
const scaled = (x, steps) => {
  const [size, unit] = steps.find(([size]) => Math.abs(x) >= size) || steps[steps.length - 1];
  return digits(x / size) + "\u00a0" + unit;
};
const bytes = (x) => known(x) ? scaled(x, [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]]) : missing;
const rate = (x) => known(x) ? count(Math.round(x)) + "/s" : missing;
const time = (us) => known(us) ? scaled(us, [[1e6, "s"], [1e3, "ms"], [1, "\u00b5s"]]) : missing;
const millis = (ms) => known(ms) ? time(ms * 1000) : missing;
const count = (x) => known(x) ? x.toLocaleString("en") : missing;
const counted = (x, thing) => `${count(x)} ${thing}${x === 1 ? "" : "s"}`;

const filled = (node, attributes, children) => {
  for (const [key, value] of Object.entries(attributes || {})) if (known(value)) node.setAttribute(key, value);
  for (const child of children) if (known(child)) node.append(child);
  return node;
};
const element = (name, attributes, ...children) => filled(document.createElement(name), attributes, children);
const byId = (id) => document.getElementById(id);
