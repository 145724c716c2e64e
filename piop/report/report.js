/* The plots of report.html, drawn from the data that stand in the page. */
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { decode, extent, scale, number, html } = Plots;
  const place = (name) => document.querySelector(`[data-plot="${name}"]`);
  const values = (packed) => (packed ? decode(packed).values : null);
  const finite = (array) => Array.from(array).filter(Number.isFinite);

  // ------------------------------------------------------------------ fields of a few inputs
  /** Picks slices out of packed fields [rows, ...axes]. */
  class Fields {
    constructor(fields) {
      this.fields = fields;
      this.reference = Object.fromEntries(
        Object.entries(fields.reference).map(([name, packed]) => [name, values(packed)]));
      this.error = Object.fromEntries(
        Object.entries(fields.error).map(([name, packed]) => [name, values(packed)]));
      this.axes = fields.axes || [];
      this.size = this.axes.reduce((n, axis) => n * axis.values.length, 1);
      if (fields.kind === "cloud") {
        this.size = fields.reference[fields.unknowns[0].name].shape[1];
        this.clouds = fields.clouds.map(({ points, triangles }) => {
          const flat = values(points), pairs = [];
          for (let i = 0; i < flat.length; i += 2) pairs.push([flat[i], flat[i + 1]]);
          return { points: pairs, triangles };
        });
      }
    }
    row(source, row) {
      return source.subarray(row * this.size, (row + 1) * this.size);
    }
    /** Reference, prediction and error of a row, the axes in `at` cut at an index. */
    slice(unknown, row, at = {}) {
      const [reference, error] = [this.reference[unknown], this.error[unknown]]
        .map((source) => this.cut(this.row(source, row), at));
      return { reference, error, prediction: reference.map((v, i) => v + error[i]) };
    }
    cut(whole, at) {
      let found = whole, sizes = this.axes.map((axis) => axis.values.length);
      for (let k = this.axes.length - 1; k >= 0; k--) {
        const index = at[this.axes[k].name];
        if (index === undefined) continue;
        const inner = sizes.slice(k + 1).reduce((a, b) => a * b, 1);
        const outer = sizes.slice(0, k).reduce((a, b) => a * b, 1);
        const next = new Float32Array(outer * inner);
        for (let o = 0; o < outer; o++)
          next.set(found.subarray((o * sizes[k] + index) * inner, (o * sizes[k] + index + 1) * inner),
            o * inner);
        found = next;
        sizes = sizes.filter((_, i) => i !== k);
      }
      return found;
    }
  }

  /** A titled panel within the grid of panels. */
  function panel(parent, letter, title) {
    const body = html("div", {});
    const head = html("b", {}, `(${letter}) ${title}`);
    const figure = html("figure", {}, html("figcaption", {}, head), body);
    parent.append(figure);
    return body;
  }

  function showFields() {
    const { fields, rows, inputs } = data;
    const controls = document.getElementById("controls"), parent = document.getElementById("fields");
    const known = new Fields(fields);
    const state = { row: Math.max(0, rows.findIndex((r) => r.name === "median")), unknown: 0, at: {} };
    const listeners = []; // called with what has changed: "row" or "at"
    const tell = (what) => listeners.forEach((listener) => listener(what));
    if (rows.length > 1) {
      const names = rows.map((r) => `${r.name} (input ${r.number}, error ${number(r.error, 2)})`);
      const select = Plots.choice(controls, "held-out input", names, (i) => {
        state.row = i;
        tell("row");
      });
      select.value = state.row;
    }
    if (fields.unknowns.length > 1)
      Plots.choice(controls, "unknown", fields.unknowns.map((u) => u.name), (i) => {
        state.unknown = i;
        tell("row");
      });
    const space = known.axes.filter((axis) => axis.name !== fields.time);
    const drawn = fields.kind === "cloud" ? [] : space.length ? space.slice(0, 2) : known.axes;
    for (const axis of known.axes.filter((a) => !drawn.includes(a) && a.values.length > 1)) {
      const last = axis.name === fields.time;
      const index = last ? axis.values.length - 1 : axis.values.length >> 1;
      state.at[axis.name] = index;
      const box = html("div", {});
      controls.append(box);
      new Plots.Player(box, { name: axis.name, unit: axis.unit, values: axis.values, index,
        onchange: (i) => {
          state.at[axis.name] = i;
          tell("at");
        } });
    }
    for (const axis of known.axes.filter((a) => !drawn.includes(a) && a.values.length === 1))
      state.at[axis.name] = 0;
    const letters = "abcdefghijklmnopqrstuvwxyz"[Symbol.iterator]();
    const next = () => letters.next().value;
    const shown = () => known.slice(fields.unknowns[state.unknown].name, state.row, state.at);
    const label = () => fields.unknowns[state.unknown].label;
    /** Ranges over all times and slices of the present input. */
    const ranges = () => {
      const whole = known.slice(fields.unknowns[state.unknown].name, state.row);
      return { field: extent(whole.reference, whole.prediction), error: extent(whole.error) };
    };
    const padded = ([low, high]) => {
      const pad = 0.06 * (high - low || 1);
      return [low - pad, high + pad];
    };

    if (drawn.length === 1) lines(drawn[0]);
    else images();
    inputs.forEach(inputPanel);
    if (drawn.length === 1 && fields.time && drawn[0].name !== fields.time) spaceTime(drawn[0]);
    tell("row");

    function lines(axis) {
      const solution = new Plots.LinePlot(panel(parent, next(), "solution"), {
        x: axis.label, y: label(), description: "Reference and prediction of the chosen input" });
      const error = new Plots.LinePlot(panel(parent, next(), "error: prediction − reference"), {
        x: axis.label, y: label(), description: "Error of the chosen input" });
      let limits;
      listeners.push((what) => {
        if (what === "row") limits = ranges();
        const found = shown();
        solution.options.y = error.options.y = label();
        solution.update({ yRange: padded(limits.field), lines: [
          { name: "reference", style: "reference", x: axis.values, y: found.reference },
          { name: "prediction", style: "prediction", x: axis.values, y: found.prediction } ] });
        error.update({ yRange: padded(limits.error), rules: [{ y: 0 }], lines: [
          { name: "error", style: "error", x: axis.values, y: found.error } ] });
      });
    }

    /** Three images of the whole evolution along one axis of space. */
    function spaceTime(axis) {
      const time = known.axes.find((a) => a.name === fields.time);
      const make = (title) => new Plots.FieldPlot(panel(parent, next(), title), {
        x: time.label, y: axis.label, maxHeight: 230, description: `${title} over time and space` });
      const plots = ["reference", "prediction", "error"].map((title) => make(title));
      listeners.push((what) => {
        if (what !== "row") return;
        const whole = known.slice(fields.unknowns[state.unknown].name, state.row);
        const range = scale("auto", extent(whole.reference, whole.prediction));
        plots.forEach((plot, i) => {
          plot.options.bar = label();
          const name = ["reference", "prediction", "error"][i];
          plot.update({ x: time.values, y: axis.values, values: whole[name],
            scale: i < 2 ? range : scale("diverging", extent(whole.error)) });
        });
      });
    }

    function images() {
      const cloud = fields.kind === "cloud";
      const [x, y] = cloud ? fields.labels : drawn.map((axis) => axis.label);
      const [width, height] = cloud ? [1, 1]
        : drawn.map((a) => a.values[a.values.length - 1] - a.values[0]);
      const equal = cloud || (height / width < 4 && width / height < 4);
      const names = ["reference", "prediction", "error"];
      const titles = ["reference", "prediction", "error: prediction − reference"];
      const plots = titles.map((title) => new Plots.FieldPlot(panel(parent, next(), title), {
        x, y, equal, description: `${title} of the chosen input` }));
      let limits;
      listeners.push((what) => {
        if (what === "row") limits = ranges();
        const found = shown();
        const where = cloud ? known.clouds[state.row] : { x: drawn[0].values, y: drawn[1].values };
        if (cloud && !where.triangles.length) delete where.triangles;
        plots.forEach((plot, i) => {
          plot.options.bar = label();
          const own = plot.content && plot.where === where ? {} : where;
          plot.where = where;
          plot.update({ ...own, values: found[names[i]],
            scale: i < 2 ? scale("auto", limits.field) : scale("diverging", limits.error) });
        });
      });
    }

    function inputPanel(input) {
      if (input.dimension === 0) {
        const text = html("span", {});
        document.getElementById("shown").append(html("span", {}, `${input.label} = `, text, "  "));
        listeners.push(() => {
          text.textContent = number(values(input.rows[state.row].values)[0]);
        });
        return;
      }
      const title = `input ${input.name} at its sensors`;
      if (input.dimension === 1) {
        const plot = new Plots.LinePlot(panel(parent, next(), title), {
          x: input.of[0], y: input.label, description: `Input ${input.name} at its sensors` });
        listeners.push((what) => {
          if (what !== "row") return;
          const row = input.rows[state.row];
          const curve = row.curve ? [{ name: "input", style: "c6", ...row.curve }] : [];
          plot.update({ lines: [...curve, { name: `${row.count} sensors`, points: true, style: "c1",
            x: values(row.points), y: values(row.values) }] });
        });
        return;
      }
      const plot = new Plots.FieldPlot(panel(parent, next(), title), {
        x: input.of[0], y: input.of[1], bar: input.label, equal: true,
        description: `Input ${input.name} at its sensors` });
      listeners.push((what) => {
        if (what !== "row") return;
        const row = input.rows[state.row], flat = values(row.points), points = [];
        for (let i = 0; i < flat.length; i += 2) points.push([flat[i], flat[i + 1]]);
        const own = values(row.values), range = scale("auto", extent(own));
        if (row.grid) plot.update({ ...row.grid, values: own, scale: range, markers: row.count < 500 ? points : [] });
        else plot.update({ points, values: own, scale: range });
      });
    }
    return state;
  }

  // ------------------------------------------------------------------ errors of all inputs
  function showSamples(samples) {
    const name = "held-out inputs";
    const error = values(samples.error), order = Array.from(error.keys()).sort((a, b) => error[a] - error[b]);
    const mean = error.reduce((a, b) => a + b, 0) / error.length;
    if (place("samples"))
      new Plots.LinePlot(place("samples"), { x: "inputs, in order of their error",
        y: "relative L2 error", logY: true, description: "Errors of all held-out inputs" }).update({
        lines: [{ name: "held-out inputs", points: true, style: "c0", x: order.map((_, i) => i + 1),
          y: order.map((i) => error[i]), labels: order.map((i) => `input ${samples.numbers[i]}`) }],
        rules: [{ name: `mean ${number(mean, 3)}`, y: mean, style: "baseline" }] });
    if (place("distance"))
      new Plots.LinePlot(place("distance"), { x: "distance from the centre of the distribution",
        y: "relative L2 error", logY: true, description: "Error against distance" }).update({
        lines: [{ name: "held-out inputs", points: true, style: "c0", x: values(samples.distance),
          y: error, labels: samples.numbers.map((n) => `input ${n}`) }] });
  }

  function showBound(samples, calibration) {
    const sets = [];
    if (calibration)
      sets.push({ name: "inputs of the calibration", points: true, style: "c6",
        x: values(calibration.error), y: values(calibration.bound) });
    if (samples.bound)
      sets.push({ name: "held-out inputs", points: true, style: "c0", x: values(samples.largest),
        y: values(samples.bound), labels: samples.numbers.map((n) => `input ${n}`) });
    const all = sets.flatMap((s) => [...finite(s.x), ...finite(s.y)]).filter((v) => v > 0);
    if (!all.length) return;
    const ends = extent(all).map((v, i) => v * (i ? 1.15 : 0.87));
    const joint = sets.reduce((a, s) => ({ ...a, x: [...a.x, ...s.x], y: [...a.y, ...s.y],
      labels: [...a.labels, ...(s.labels || Array.from(s.x, () => s.name))] }),
      { x: [], y: [], labels: [] });
    new Plots.LinePlot(place("bound"), { x: "relative L2 error", y: "bound", logX: true, logY: true,
      description: "Bound of the error against the error" }).update({
      xRange: ends, yRange: ends,
      lines: [...sets, { name: "bound = error", style: "baseline", x: ends, y: ends },
        { ...joint, points: true, style: "unseen" }].reverse() });
  }

  function showOverTime(over) {
    const [low, high] = [values(over.low), values(over.high)];
    const shown = [values(over.median), high, ...over.baselines.map((b) => values(b.y))];
    const [least, most] = extent(...shown.map((a) => finite(a).filter((v) => v > 0)));
    // errors of rounding at the initial time are not worth the room
    const yRange = [Math.max(0.7 * least, 1e-4 * most), 1.3 * most];
    const colours = ["c1", "c2", "c3", "c4"];
    new Plots.LinePlot(place("overTime"), { x: over.label, y: "relative L2 error", logY: true,
      description: "Error over time" }).update({
      yRange, bands: [{ name: "10–90 % of the inputs", x: over.t, low, high, style: "c0" }],
      lines: [{ name: "median", style: "c0", x: over.t, y: values(over.median) },
        ...over.baselines.map((b, i) => ({ name: `“${b.name}”`, style: colours[i % 4], dash: "6 4",
          x: over.t, y: values(b.y) }))] });
  }

  /** Points of a cloud, and its triangles where it has some. */
  function placesOf(cloud) {
    const flat = values(cloud.points), points = [];
    for (let i = 0; i < flat.length; i += 2) points.push([flat[i], flat[i + 1]]);
    return cloud.triangles.length ? { points, triangles: cloud.triangles } : { points };
  }

  function showOverSpace(over, unknowns) {
    const names = Object.keys(over.errors), box = place("overSpace");
    const controls = html("div", { class: "controls" }), body = html("div", {});
    box.append(...(names.length > 1 && !(over.kind === "grid" && over.axes.length === 1) ? [controls] : []),
      body);
    let draw;
    if (over.kind === "grid" && over.axes.length === 1) {
      const plot = new Plots.LinePlot(body, { x: over.axes[0].label, y: "error", description: "Error over space" });
      const colours = ["c0", "c1", "c2", "c3", "c4"];
      plot.update({ lines: names.map((name, i) => ({ name, style: colours[i % 5],
        x: over.axes[0].values, y: values(over.errors[name]) })),
        yRange: [0, 1.06 * extent(...names.map((n) => values(over.errors[n])))[1]] });
      return;
    }
    if (over.kind === "grid") {
      const [x, y] = over.axes;
      const plot = new Plots.FieldPlot(body, { x: x.label, y: y.label, bar: "error", equal: true,
        description: "Error over space" });
      draw = (name) => plot.update({ x: x.values, y: y.values, values: values(over.errors[name]),
        scale: scale("positive", extent(values(over.errors[name]))) });
    } else {
      const known = new Fields({ ...over, unknowns: [{ name: names[0] }], reference: over.errors, error: {},
        kind: "none" });
      const where = placesOf(over.clouds[0]);
      const plot = new Plots.FieldPlot(body, { x: over.labels[0], y: over.labels[1], bar: "error",
        equal: true, description: "Error over space" });
      draw = (name) => plot.update({ ...where, values: known.reference[name],
        scale: scale("positive", extent(known.reference[name])) });
    }
    if (names.length > 1) Plots.choice(controls, "unknown", names, (i) => draw(names[i]));
    draw(names[0]);
  }

  function showResidual(residual, rows) {
    const box = place("residual");
    const controls = html("div", { class: "controls" }), body = html("div", {});
    box.append(...(rows.length * residual.equations.length > 1 ? [controls] : []), body);
    const state = { row: Math.max(0, rows.findIndex((r) => r.name === "median")), equation: 0 };
    const decoded = residual.equations.map((equation) => values(equation.values));
    const size = decoded[0].length / rows.length, cloud = residual.kind === "cloud";
    const [x, y] = cloud ? residual.labels.map((label) => ({ label })) : residual.axes;
    const at = (row) => cloud ? placesOf(residual.clouds[row]) : { x: x.values, y: y.values };
    const plot = y
      ? new Plots.FieldPlot(body, { x: x.label, y: y.label, bar: "log₁₀ |residual|", equal: cloud,
          description: "Residual of the chosen input" })
      : new Plots.LinePlot(body, { x: x.label, y: "|residual|", logY: true, legend: false,
          description: "Residual of the chosen input" });
    const draw = () => {
      const all = decoded[state.equation];
      const own = all.subarray(state.row * size, (state.row + 1) * size);
      if (y) plot.update({ ...at(state.row), values: own, scale: scale("sequential", extent(all)) });
      else plot.update({ lines: [{ name: "residual", x: x.values, y: own.map((v) => 10 ** v) }] });
    };
    if (rows.length > 1)
      Plots.choice(controls, "input", rows.map((r) => r.name), (i) => {
        state.row = i;
        draw();
      }).value = state.row;
    if (residual.equations.length > 1)
      Plots.choice(controls, "equation", residual.equations.map((e) => e.name), (i) => {
        state.equation = i;
        draw();
      });
    draw();
  }

  // ------------------------------------------------------------------ training
  /** Median of each value and its neighbours. */
  function smooth(y) {
    const half = Math.max(1, Math.round(0.02 * y.length));
    return y.map((_, i) => {
      const near = Array.from(y.slice(Math.max(0, i - half), i + half + 1)).sort((a, b) => a - b);
      return near[near.length >> 1];
    });
  }

  function showTraining(training) {
    const colours = ["c6", "c0", "c1", "c2", "c3"];
    const terms = training.losses.length === 2 ? training.losses.slice(1) : training.losses;
    const lines = terms.flatMap((loss, i) => {
      const [x, y] = [values(loss.x), values(loss.y)];
      if (!y.some((v) => v > 0)) return [];
      const style = colours[i % 5];
      const weight = loss.weight === null || loss.weight === undefined ? ""
        : ` (weight ${number(loss.weight, 3)})`;
      return [{ style, x, y, muted: true }, { name: loss.name + weight, style, x, y: smooth(y) }];
    });
    new Plots.LinePlot(place("losses"), { x: "step", y: "loss", logY: true,
      description: "Losses over the steps of training" }).update({ lines });
    new Plots.LinePlot(place("rate"), { x: "step", y: "step size", legend: false,
      description: "Step size over the steps of training" }).update({
      lines: [{ name: "step size", style: "c6", x: values(training.rate.x), y: values(training.rate.y) }] });
    if (place("weights"))
      new Plots.LinePlot(place("weights"), { x: "step", y: "weight", logY: true,
        description: "Weights of the terms over the steps of training" }).update({
        lines: training.weights.map((w, i) => ({ name: w.name, style: colours[(i + 1) % 5],
          x: values(w.x), y: values(w.y) })) });
    if (place("inferred"))
      new Plots.LinePlot(place("inferred"), { x: "step", y: "value",
        description: "Inferred parameters over the steps of training" }).update({
        lines: training.inferred.map((p, i) => ({ name: p.name, style: colours[(i + 1) % 5],
          x: values(p.x), y: values(p.y) })) });
  }

  function showDiscretisation(study) {
    const colours = ["c0", "c1", "c2", "c3", "c4"];
    const grids = study.grids;
    const lines = Object.keys(study.sensors).map((sensors, i) => ({
      name: sensors.includes("%") ? `${sensors} of the sensors` : `${sensors} sensors`,
      style: colours[i % 5], x: grids.map((_, k) => k),
      y: grids.map((g) => study.relative_l2.find((c) => c.sensors === sensors && c.grid === g).mean) }));
    const plot = new Plots.LinePlot(place("discretisation"), {
      x: `grid: ${grids.map((g, i) => `${i} is ${g}`).join(", ")}`, y: "relative L2 error", logY: true,
      description: "Error over sensors and grids" });
    plot.update({ lines });
  }

  if (data.fields) showFields();
  if (data.samples) showSamples(data.samples);
  if (place("bound")) showBound(data.samples, data.calibration);
  if (place("overTime")) showOverTime(data.overTime);
  if (place("overSpace")) showOverSpace(data.overSpace);
  if (place("residual")) showResidual(data.residual, data.rows);
  if (data.training) showTraining(data.training);
  if (place("discretisation")) showDiscretisation(data.discretisation);
})();
