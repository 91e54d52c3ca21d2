"use strict";
// Runs the scripts of a page on a document that only takes note of what they put there, and prints it as HTML.
//
//     node document.js PAGE.html [TEST.js]
//
// A test runs behind the page's scripts, sees what they define, and has `assert` of node.
const fs = require("node:fs");
const vm = require("node:vm");

const escaped = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;");

class Element {
  constructor(name) { Object.assign(this, { name, attributes: {}, children: [], style: {}, clientWidth: 1000, clientHeight: 300 }); }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  append(...children) { this.children.push(...children.map((child) => child instanceof Element ? child : String(child))); }
  replaceChildren(...children) { this.children = []; this.append(...children); }
  set textContent(text) { this.replaceChildren(text); }
  get textContent() { return this.children.map((child) => child instanceof Element ? child.textContent : child).join(""); }
  get classList() {
    return { add: (word) => { this.attributes.class = [this.attributes.class, word].filter(Boolean).join(" "); } };
  }
  toString() {
    const attributes = Object.entries(this.attributes).map(([name, value]) => ` ${name}="${escaped(value)}"`).join("");
    const inside = this.children.map((child) => child instanceof Element ? child.toString() : escaped(child)).join("");
    return `<${this.name}${attributes}>${inside}</${this.name}>`;
  }
}

const page = fs.readFileSync(process.argv[2], "utf8");
const byId = new Map();
for (const [, name, id] of page.split("<script")[0].matchAll(/<(\w+)[^>]* id="(\w+)"/g)) {
  byId.set(id, new Element(name));
  byId.get(id).setAttribute("id", id);
}
const [, json] = page.match(/<script type="application\/json" id="report">(.*?)<\/script>/s);
byId.set("report", new Element("script"));
byId.get("report").textContent = json;

// The real one draws on a canvas.
class uPlot {
  constructor(options, data, panel) {
    panel.append(`${data.length - 1} lines of ${data[0].length} windows`);
  }
  destroy() {}
}

const context = vm.createContext({
  document: {
    documentElement: new Element("html"),
    getElementById: (id) => byId.get(id) ?? null,
    createElement: (name) => new Element(name),
    createElementNS: (_, name) => new Element(name),
  },
  getComputedStyle: () => ({ getPropertyValue: () => "black", gridTemplateColumns: "180px 180px" }),
  matchMedia: () => ({ addEventListener() {} }),
  addEventListener() {},
  assert: require("node:assert/strict"),
});
for (const [, script] of page.matchAll(/<script>(.*?)<\/script>/gs)) {
  if (script.includes("var uPlot=")) context.uPlot = uPlot;
  else vm.runInContext(script, context);
}
if (process.argv[3]) vm.runInContext(fs.readFileSync(process.argv[3], "utf8"), context, process.argv[3]);
byId.delete("report");
console.log([...byId.values()].join("\n"));
