"use strict";
// What the charts calculate, behind the scripts of a lab's page.
{
  const near = (a, b) => assert.ok(Math.abs(a - b) < 1e-9, `${a} is not ${b}`);
  const allNear = (a, b) => { assert.equal(a.length, b.length, `${a} are not ${b}`); a.forEach((x, i) => near(x, b[i])); };

  // Ticks are round and within the range.
  allNear(ticks(0, 1, 5), [0, 0.2, 0.4, 0.6, 0.8, 1]);
  allNear(ticks(-1.2, 3.4, 5), [-1, 0, 1, 2, 3]);
  allNear(ticks(2, 2, 5), [2]);
  allNear(logTicks(90, 1100), [100, 200, 500, 1000]);

  // Scales reach from end to end; what is beyond lies a little beyond.
  const linear = linearScale(0, 2, 100, 0);
  allNear([0, 1, 2, 9].map(linear.at), [100, 50, 0, -50]);
  near(linearScale(3, 3, 0, 10).at(3), 0);
  near(logScale(1, 100, 0, 10).at(10), 5);
  near(logScale(1, 100, 0, 10).at(0), -5);
  allNear(logScale(0.6, 0.9, 0, 10).ticks(3), [0.6, 0.7, 0.8, 0.9]);

  // Figures read well.
  const reads = { ratio: [[1.418, "1.42"], [12.34, "12.3"], [123.4, "123"]], share: [[0.0455, "4.5\u00a0%"]], seconds: [[1.234, "1.23\u00a0s"]],
    milliseconds: [[7, "7.0\u00a0ms"]], bytes: [[230980288, "231\u00a0MB"], [12, "12.0\u00a0B"]], microseconds: [[1234, "1.23\u00a0ms"]],
    nanoseconds: [[17.6, "18\u00a0ns"]], "operations/s": [[41234.4, "41,234/s"]] };
  for (const [unit, cases] of Object.entries(reads)) for (const [x, text] of cases) assert.equal(figure(unit, x), text);
  assert.equal(withRange("ratio", { median: 1, min: 0.5, max: 2, runs: 3 }), "1.00 (0.50 .. 2.00)");
  assert.equal(withRange("ratio", { median: 1, min: 1, max: 1, runs: 1 }), "1.00");
  assert.deepEqual([tick("ratio")(0.2), tick()(64), tick("seconds")(-1e-17), tick("seconds")(1.5), tick("microseconds")(1000)],
    ["0.2", "64", "0\u00a0s", "1.5\u00a0s", "1\u00a0ms"]);

  // One line far above all others is an outlier.
  const line = (name, ...values) => ({ name, points: values.map((y, x) => [x, y, y, y]) });
  const low = line("low", 1, 2, 1), high = line("high", 1, 9);
  const found = outlier([low, high]);
  assert.deepEqual([found.name, found.peak, found.others], ["high", 9, 2]);
  assert.equal(outlier([low, line("near", 7.9)]), null);
  assert.equal(outlier([high]), null, "alone");
  assert.equal(outlier([low, line("nothing", 0)]), null, "the others have nothing to show");

  // The axes cover medians, a part of what bands add, and the reference; an outlier is cut off.
  const y = { is_log: false, reference: 1 }, time = { kind: "time", from: -1, to: 3 };
  const reach = (x, y, ...lines) => { const { left, right, bottom, top } = linesReach({ x, y, lines }); return [left, right, bottom, top]; };
  allNear(reach(time, y, { name: "", points: [[0, 0.5, 0.4, 0.9]] }), [-1, 3, 0.4, 1.05]);
  allNear(reach(time, y, { name: "", points: [[0, 2, 1, 9]] }), [-1, 3, 1.4, 2.7]);
  allNear(reach(time, y, low, high), [-1, 3, 1, 3.2]);
  allNear(reach({ kind: "values", values: [0, 100] }, y, { name: "", points: [[0, 1, 1, 1], [100, 2, 2, 2]] }), [-1.5, 101.5, 1, 2]);

  // The dot between two points lies on the line.
  const scale = linearScale(0, 4, 40, 0);
  near(heightAt(line("", 1, 3).points, 0.5, scale), 20);
  assert.equal(heightAt(line("", 1, 3).points, 1.5, scale), null);

  // Bars stand below each other, with gaps between groups.
  const rows = barRows([["a", "b"], ["c"]]);
  assert.deepEqual(rows.rows.map(({ bar, middle }) => `${bar} ${middle}`), ["a 16", "b 40", "c 76"]);
  assert.equal(rows.height, 92);

  // Names keep apart, stay in the picture, and stand at their points where they can.
  allNear(nameHeights([50, 100], 200), [50, 100]);
  allNear(nameHeights([50, 51, 52], 200), [50, 67, 84]);
  allNear(nameHeights([190, 195], 200), [166, 183]);
}
