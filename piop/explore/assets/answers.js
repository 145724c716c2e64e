/* What the server answers: fields and curves beside the reference, bound, error, distribution. */

const { html, number } = Plots;

export const percent = (value) =>
  value === null || value === undefined ? "–" : `${number(100 * value, 2)}\u00a0%`;
/** A name with its unit, as axes are labelled. */
export const labelled = (name, units) => (units[name] ? `${name} [${units[name]}]` : name);
const probability = (p) => (p < 0.001 ? "< 0.001" : `= ${number(p, 2)}`);
const seconds = (s) => (s < 1 ? `${number(1000 * s, 2)}\u00a0ms` : `${number(s, 2)}\u00a0s`);

class Card {
  constructor(name, key) {
    this.value = html("div", { class: "value" }, "–");
    this.text = html("p", {});
    this.element = html("div", { class: "card", "data-card": key },
      html("div", { class: "name" }, name), this.value, this.text);
  }
  set(value, text = "") {
    this.value.replaceChildren(value);
    this.text.replaceChildren(text);
    this.element.classList.remove("stale");
  }
  stale() {
    this.element.classList.add("stale");
  }
}

/** The numbers: distribution, bound, true error, seconds. */
export class Cards {
  constructor(about) {
    this.about = about;
    const run = about.mode === "run";
    this.distribution = new Card("Input", "distribution");
    this.bound = new Card(`Error bound (${number(100 * about.confidence, 3)} %)`, "bound");
    this.error = new Card("True error", "error");
    this.reference = new Card("Reference", "reference");
    this.all = run ? [this.distribution, this.bound, this.error, this.reference] : [this.reference];
    if (run && !about.inputs.length) this.all.splice(0, 2);
    this.element = html("div", { class: "cards" }, ...this.all.map((card) => card.element));
  }
  /** A newer input is on its way: what is shown belongs to the one before. */
  stale() {
    this.all.forEach((card) => card.stale());
  }
  trust(found) {
    this.found = found;
    if (found.in_distribution === null) this.distribution.set("–", "its distribution is not known");
    else {
      const inside = found.in_distribution;
      const badge = html("span", { class: `badge ${inside ? "good" : "bad"}` },
        inside ? "in distribution" : "outside");
      const why = inside ? "" : `; most unusual: ${found.reason}`;
      this.distribution.set(badge, `p ${probability(found.p_value)}${why}`);
    }
    const sensors = found.sensor_error === null ? ""
      : ` Fewer sensors alone cause ${percent(found.sensor_error)}.`;
    if (this.about.uncalibrated)
      this.bound.set("none", `not calibrated; run: ${this.about.uncalibrated}`);
    else if (found.bound === null)
      this.bound.set("none", (found.in_distribution === false ? "the input is outside the distribution."
        : "there are fewer sensors than in the calibration.") + sensors);
    else this.bound.set(percent(found.bound), `typically ${percent(found.estimate)}.${sensors}`);
  }
  solving() {
    this.reference.set("…", "solving");
  }
  compare(found) {
    const own = found.error_estimate === null ? "its own error is not known"
      : `its own error: ${percent(found.error_estimate)}`;
    this.reference.set(seconds(found.seconds), found.accepted ? own : `${own}, above its tolerance`);
    if (found.error === null) return;
    const bound = this.found ? this.found.bound : null;
    const texts = [];
    if (bound !== null) {
      const most = Math.max(bound, found.error) * 1.15;
      const bar = html("span", {}), mark = html("i", {});
      bar.style.width = `${(100 * bound) / most}%`;
      mark.style.left = `calc(${(100 * found.error) / most}% - 1px)`;
      const words = found.error <= bound ? "within the bound" : "beyond the bound";
      texts.push(html("div", { class: "gauge", role: "img", "aria-label": words }, bar, mark), words);
    }
    this.error.set(percent(found.error), "");
    this.error.text.replaceChildren(...texts);
  }
  unsolved(message) {
    this.reference.set("none", message);
    this.error.set("–", "without a reference the error is not known");
  }
  /** A sentence for screen readers. */
  spoken() {
    return this.all.map((card) => {
      const name = card.element.querySelector(".name").textContent;
      return `${name}: ${card.value.textContent}. ${card.text.textContent}`;
    }).join(" ");
  }
}

/** Values of one channel at one time: `{shape: [C, T, ...], values}` cut to `[...]`. */
function field(array, channel, frame) {
  const size = array.shape.slice(2).reduce((a, b) => a * b, 1);
  const frames = array.shape[1], at = Math.min(frame, frames - 1);
  const start = (channel * frames + at) * size;
  return array.values.subarray(start, start + size);
}

function channelValues(array, channel) {
  const size = array.values.length / array.shape[0];
  return array.values.subarray(channel * size, (channel + 1) * size);
}

const difference = (a, b) => a.map((value, i) => Math.abs(value - b[i]));

/** Curves over one axis: operator, reference, and below them the error. */
class Curves {
  constructor(element, about, axis, names) {
    this.axis = axis;
    const top = html("figure", { "data-plot": "answer" });
    element.append(top);
    const x = labelled(axis.name, about.units);
    this.plot = new Plots.LinePlot(top, { x, y: names.label, height: 260 });
    if (about.mode === "run") {
      const below = html("figure", { "data-plot": "error" });
      element.append(below);
      this.errors = new Plots.LinePlot(below, { x, y: "|operator − reference|", height: 150,
        legend: false });
    }
  }
  draw({ operator, reference, range }, label) {
    const [axis, close] = [this.axis, (v) => (this.axis.closed ? Float32Array.from([...v, v[0]]) : v)];
    const x = axis.x, lines = [];
    if (reference) lines.push({ name: "reference", x, y: close(reference), style: "reference" });
    if (operator) lines.push({ name: "operator", x, y: close(operator), style: "prediction" });
    this.plot.options.y = label;
    this.plot.update({ lines, yRange: range });
    if (!this.errors) return;
    const known = operator && reference;
    const y = known ? close(difference(operator, reference)) : [];
    this.errors.element.hidden = !known;
    if (known) this.errors.update({ lines: [{ name: "error", x, y, style: "error" }],
      yRange: [0, Math.max(...y) * 1.1 || 1] });
  }
}

/** Two colours about zero only where values of both signs count. */
function coloursOf([low, high]) {
  const both = Math.min(-low, high) > 0.02 * Math.max(-low, high);
  return Plots.scale(both ? "diverging" : "sequential", [low, high]);
}

/** Maps over two axes or triangles: operator, reference, error. */
class Maps {
  constructor(element, about, display, names) {
    this.display = display;
    const [a, b] = display.space.map((name) => labelled(name, about.units));
    const row = html("div", { class: "fields" });
    element.append(row);
    const make = (key, title) => {
      const figure = html("figure", { "data-plot": key }, html("figcaption", {}, html("b", {}, title)));
      row.append(figure);
      const stage = html("div", {});
      figure.append(stage);
      return { figure, plot: new Plots.FieldPlot(stage, { x: a, y: b, bar: names.label, equal: true,
        maxHeight: 300 }) };
    };
    this.parts = about.mode === "run"
      ? { operator: make("operator", "operator"), reference: make("reference", "reference"),
        error: make("error", "|operator − reference|") }
      : { reference: make("reference", "reference") };
    this.depth = display.axes.length === 3 ? display.axes[2].values.length >> 1 : null;
  }
  cut(values) {
    if (this.depth === null) return values;
    const n = this.display.axes[2].values.length;
    return Float32Array.from({ length: values.length / n }, (_, i) => values[i * n + this.depth]);
  }
  draw({ operator, reference, range }, label) {
    const where = this.display.points
      ? { points: this.display.points, triangles: this.display.triangles }
      : { x: this.display.axes[0].values, y: this.display.axes[1].values };
    const scale = coloursOf(range);
    const show = (part, values, colours) => {
      if (!part) return;
      part.figure.hidden = !values;
      if (!values) return;
      part.plot.options.bar = label;
      part.plot.update({ ...where, values: this.cut(values), scale: colours });
    };
    show(this.parts.operator, operator, scale);
    show(this.parts.reference, reference, scale);
    const error = operator && reference ? difference(operator, reference) : null;
    show(this.parts.error, error, error && Plots.scale("positive", Plots.extent(error)));
  }
}

/** The answer: the unknown that is chosen, at the time that is chosen. */
export class Answer {
  /** `page.seek(frame)` and `page.choose(channel)` are called when the user moves them. */
  constructor(element, about, page) {
    Object.assign(this, { about, page, display: about.display, channel: 0, frame: 0 });
    this.cards = new Cards(about);
    this.status = html("p", { class: "waiting", "data-status": "" });
    const controls = html("div", { class: "controls" });
    element.replaceChildren(html("h2", {}, "Answer"), this.cards.element, controls, this.status);
    if (about.channels.length > 1)
      this.select = Plots.choice(controls, "unknown", about.channels, (i) => {
        this.channel = i;
        page.choose(i);
        this.draw();
      });
    const { display } = this;
    if (display.moving) {
      const holder = html("div", {});
      controls.append(holder);
      this.player = new Plots.Player(holder, { name: display.time,
        unit: about.units[display.time] || "", values: display.times, rate: 10,
        onchange: (frame) => {
          this.frame = frame;
          page.seek(frame);
          this.draw();
          this.drawOver();
        } });
    }
    const stage = html("div", {});
    element.append(stage);
    const names = { label: this.label() };
    if (display.space.length >= 2) {
      this.view = new Maps(stage, about, display, names);
      if (this.view.depth !== null) this.addDepth(controls);
    } else this.view = new Curves(stage, about, this.axis(), names);
    this.over = html("figure", { "data-plot": "over-time", hidden: "" },
      html("figcaption", {}, "Relative error at each time"));
    element.append(this.over);
    const below = html("div", {});
    this.over.append(below);
    this.overPlot = new Plots.LinePlot(below, { x: labelled(display.time || "", about.units),
      y: "relative L2", height: 180 });
  }
  addDepth(controls) {
    const axis = this.display.axes[2];
    const slider = html("input", { type: "range", min: 0, max: axis.values.length - 1, step: 1,
      "aria-label": `cut at ${axis.name}` });
    slider.value = this.view.depth;
    const where = html("span", {});
    const tell = () =>
      (where.textContent = `${axis.name} = ${number(axis.values[this.view.depth], 2)}`);
    tell();
    slider.addEventListener("input", () => {
      this.view.depth = Number(slider.value);
      tell();
      this.draw();
    });
    controls.append(html("label", { class: "choice cut" }, "cut at", slider, where));
  }
  /** The axis of curves: that of space, or time where there is no space. */
  axis() {
    const { display } = this;
    if (!display.space.length) return { name: display.time, x: display.times, closed: false };
    const [{ name, values }] = display.axes, [[, high]] = display.box;
    const closed = values[values.length - 1] < high - 1e-9 * Math.abs(high - values[0]);
    return { name, x: closed ? [...values, high] : values, closed };
  }
  label() {
    return labelled(this.about.channels[this.channel], this.about.units);
  }
  choose(channel) {
    this.channel = channel;
    if (this.select) this.select.value = channel;
  }
  seek(frame) {
    this.frame = frame;
    if (this.player) {
      this.player.index = frame;
      this.player.show();
    }
  }
  /** An answer at the time shown; `fresh` tells whether inputs are new, or sensors as well. */
  atTime(found, fresh) {
    if (fresh.operator) this.whole = this.bounds = this.errors = null;
    if (fresh.inputs) this.reference = null;
    this.now = found.arrays.values || null;
    this.nowFrame = found.frame;
    this.draw();
  }
  setWhole(found) {
    this.whole = found.arrays.values;
    this.draw();
  }
  setTrust(found) {
    this.cards.trust(found);
    this.bounds = found.bound_over_time;
    this.drawOver();
  }
  setReference(found) {
    this.reference = found.arrays.values;
    this.errors = found.error_over_time;
    this.cards.compare(found);
    this.draw();
    this.drawOver();
  }
  operator() {
    if (this.whole) return field(this.whole, this.channel, this.frame);
    return this.now ? field(this.now, this.channel, 0) : null;
  }
  draw() {
    const reference = this.reference ? field(this.reference, this.channel, this.frame) : null;
    const operator = this.operator();
    if (!operator && !reference) return;
    const known = [this.whole, this.reference].filter(Boolean).map((a) => channelValues(a, this.channel));
    if (known.length || !this.kept || this.keptChannel !== this.channel) {
      const [low, high] = Plots.extent(...known, ...(known.length ? [] : [operator]));
      const pad = 0.06 * (high - low || 1);
      this.kept = this.display.space.length >= 2 ? [low, high] : [low - pad, high + pad];
      this.keptChannel = this.channel;
    } else { // while an input moves, the range only grows
      const [low, high] = Plots.extent(operator);
      this.kept = [Math.min(this.kept[0], low), Math.max(this.kept[1], high)];
    }
    this.view.draw({ operator, reference, range: this.kept }, this.label());
  }
  drawOver() {
    const { times, moving } = this.display;
    const shown = moving && (this.errors || this.bounds);
    this.over.hidden = !shown;
    if (!shown) return;
    const lines = [], bands = [];
    if (this.errors) lines.push({ name: "error", x: times, y: this.errors.map((v) => v ?? NaN), style: "error" });
    if (this.bounds)
      bands.push({ name: "bound", x: times, low: times.map(() => 0),
        high: this.bounds.map((v) => v ?? NaN), style: "bound" });
    this.overPlot.update({ lines, bands, rules: [{ x: times[this.frame], style: "baseline" }] });
  }
}
