/* Panels in which inputs are changed: curves and maps drawn by hand, waves, numbers, sensors. */

import { labelled } from "./answers.js";

const { html, number } = Plots;
/** Labels of the axes of an input and of its values, with their units. */
const labelsOf = ({ page, item }) =>
  [...item.axes, item].map(({ name }) => labelled(name, page.about.units));
const between = (value, low, high) => Math.min(high, Math.max(low, value));
const round = (value) => Number(value.toPrecision(4)); // what is sent and kept in the address
const SMOOTHINGS = 3; // passes over a curve drawn by hand
const NEAR = 12; // pixels within which a sensor is taken, where others are not closer still

/** Let one of several buttons be pressed. */
function modes(names, labels, onchange) {
  const group = html("span", { class: "mode", role: "group", "aria-label": "What the pointer does" });
  const buttons = names.map((name, i) => {
    const button = html("button", { type: "button", "aria-pressed": String(i === 0) }, labels[i]);
    button.addEventListener("click", () => {
      buttons.forEach((b) => b.setAttribute("aria-pressed", String(b === button)));
      onchange(name);
    });
    return button;
  });
  group.append(...buttons);
  return group;
}

function button(text, onclick) {
  const made = html("button", { type: "button" }, text);
  made.addEventListener("click", onclick);
  return made;
}

function slider(label, low, high, step, value, oninput) {
  const input = html("input", { type: "range", min: low, max: high, step, "aria-label": label });
  input.value = value;
  input.addEventListener("input", () => oninput(Number(input.value)));
  return input;
}

/** What every panel of an input has.
 *
 * `page.change(name, definition)` takes a new definition, `page.place(name, layout)` new sensors
 * (null for those of the spec), `page.redraw(name)` asks for another draw.
 */
class InputPanel {
  constructor(item, page) {
    Object.assign(this, { item, page });
    const of = item.axes.map((a) => a.name).join(", ");
    const unit = item.unit ? ` in ${item.unit}` : "";
    this.element = html("div", { class: "input", "data-input": item.name });
    this.element.append(html("h2", {}, `${item.name}${of ? `(${of})` : ""}`,
      html("small", { class: "soft" }, unit)));
  }
  /** The definition as it is in the state of the page. */
  get definition() {
    return this.page.state.inputs[this.item.name];
  }
  change(definition) {
    this.page.change(this.item.name, definition);
  }
  show() {}
}

/** A number: a slider between the ends of its distribution, and the number itself. */
export class NumberPanel extends InputPanel {
  constructor(item, page) {
    super(item, page);
    const { low, high, log, whole } = item.range;
    this.log = log && low > 0;
    const to = (v) => (this.log ? Math.log10(v) : v);
    const step = whole ? 1 : (to(high) - to(low)) / 200 || 1;
    this.slider = slider(item.name, to(low), to(high), step, to(low), (v) => {
      const value = this.log ? 10 ** v : v;
      this.set(whole ? Math.round(value) : round(value));
    });
    this.field = html("input", { type: "number", step: "any", "aria-label": `${item.name}, exact` });
    this.field.addEventListener("change", () => {
      if (this.field.value !== "" && Number.isFinite(Number(this.field.value)))
        this.set(Number(this.field.value));
    });
    this.element.append(html("div", { class: "number" }, this.slider, this.field,
      button("New random", () => page.redraw(item.name))),
    html("p", { class: "hint" }, `drawn from ${number(low, 3)} to ${number(high, 3)}`));
  }
  set(value) {
    this.change({ kind: "number", value });
  }
  show(answer) {
    const value = answer.numbers[this.item.name];
    if (value === undefined) return;
    if (document.activeElement !== this.slider)
      this.slider.value = this.log ? Math.log10(value) : value;
    this.slider.setAttribute("aria-valuetext", number(value));
    if (document.activeElement !== this.field) this.field.value = round(value);
  }
}

/** A function that is drawn by hand; subclasses know its dimension. */
class FunctionPanel extends InputPanel {
  constructor(item, page) {
    super(item, page);
    this.mode = "draw";
    this.surface = html("div", { class: "surface", tabindex: "0", role: "application",
      "aria-label": `${item.name}: ${this.keys()}`, "data-surface": item.name });
    this.extra = html("div", { class: "controls" });
    this.hint = html("p", { class: "hint" });
    this.count = html("span", { class: "soft", "data-count": item.name });
    this.within = html("input", { type: "checkbox" });
    this.within.checked = item.waves.length > 0;
    this.within.addEventListener("change", () => {
      if (this.definition.kind === "values")
        this.change({ ...this.definition, within: this.within.checked });
    });
    const near = html("label", { title: "Take the nearest function that the distribution can draw" },
      this.within, "only its waves");
    const random = !["grid"].includes(item.sensors.place);
    this.drawing = html("span", { class: "controls" }, button("New random", () => page.redraw(item.name)));
    if (item.waves.length) this.drawing.append(near);
    this.placing = html("span", { class: "controls", hidden: "" },
      button("Spec’s sensors", () => page.place(item.name, null)),
      ...(random ? [button("Place anew", () => page.place(item.name,
        { seed: ((page.state.sensors[item.name] || {}).seed || 0) + 1 }))] : []),
      button("Drop half", () => this.setSensors(this.sensors.filter((_, i) => i % 2 === 0))),
      this.count);
    this.element.append(
      html("div", { class: "controls" },
        modes(["draw", "sensors"], ["By hand", "Sensors"], (mode) => this.setMode(mode)),
        this.drawing, this.placing),
      this.surface, this.hint, this.extra);
    this.addWaves();
    this.makePlot();
    this.listen();
    this.setMode("draw");
  }
  setMode(mode) {
    this.mode = mode;
    this.selected = -1;
    this.drawing.hidden = mode !== "draw";
    this.extra.hidden = mode !== "draw";
    this.placing.hidden = mode !== "sensors";
    this.hint.textContent = mode === "draw" ? this.drawHint()
      : "Click to add a sensor, drag one to move it, click one to drop it.";
    if (this.values) this.redraw();
  }
  addWaves() {
    const { waves } = this.item;
    if (!waves.length) return;
    const grid = html("div", { class: this.item.axes.length > 1 ? "sliders long" : "sliders" });
    this.waves = waves.map((wave) => {
      const reach = 3.5 * wave.std;
      const output = html("output", {});
      const input = slider(`${this.item.name}, ${wave.name}`, wave.mean - reach, wave.mean + reach,
        reach / 100, wave.mean, (value) => {
          const now = this.definition;
          const waved = now.kind === "waves" ? now : { kind: "waves", base: now, changes: {} };
          const changes = { ...waved.changes, [wave.number]: round(value) };
          this.change({ kind: "waves", base: waved.base, changes });
        });
      grid.append(html("label", { class: "slider" }, wave.name, input, output));
      return { wave, input, output };
    });
    const open = matchMedia("(min-width: 60rem)").matches && this.page.about.inputs.length === 1;
    this.element.append(html("details", open ? { open: "" } : {}, html("summary", {}, "Waves"), grid));
  }
  get scale() {
    const { mean, std } = this.item;
    return { mean, std: std > 0 ? std : Math.abs(mean) || 1 };
  }
  /** Take what the server made of the definition. */
  show(answer) {
    const { name } = this.item;
    const field = answer.arrays[`input/${name}`];
    if (!field) return;
    this.values = field.values;
    const points = answer.arrays[`sensors/${name}`], d = points.shape[1];
    if (typeof this.dragged !== "number")
      this.sensors = Array.from({ length: points.shape[0] },
        (_, i) => Array.from(points.values.subarray(i * d, (i + 1) * d)));
    this.observed = answer.arrays[`observed/${name}`].values;
    this.count.textContent = `${points.shape[0]} sensors`;
    const waves = answer.waves[name];
    for (const { wave, input, output } of this.waves || []) {
      if (!waves) break;
      const value = waves[wave.number];
      if (document.activeElement !== input) input.value = value;
      output.textContent = number(value, 2);
      input.setAttribute("aria-valuetext", number(value, 3));
    }
    this.redraw();
  }
  paint(values) {
    this.change({ kind: "values", values: Array.from(values, round), within: this.within.checked });
  }
  setSensors(points) {
    if (!points.length) return this.page.say("An input needs at least one sensor.");
    const inside = points.map((p) => p.map((x, i) => {
      const axis = this.item.axes[i];
      return Number(between(x, axis.low, axis.high).toPrecision(7));
    }));
    return this.page.place(this.item.name, { points: inside });
  }
  listen() {
    const surface = this.surface;
    let begun = null;
    surface.addEventListener("pointerdown", (event) => {
      if (!this.plot.xAxis || !this.values || event.button > 0) return;
      surface.setPointerCapture(event.pointerId);
      event.preventDefault();
      surface.focus({ preventScroll: true });
      begun = { x: event.clientX, y: event.clientY, moved: false };
      if (this.mode === "draw") this.startStroke(event);
      else this.dragged = this.sensorAt(event);
    });
    surface.addEventListener("pointermove", (event) => {
      if (!begun) return;
      if (Math.hypot(event.clientX - begun.x, event.clientY - begun.y) > 3) begun.moved = true;
      if (this.mode === "draw") this.stroke(event);
      else if (this.dragged !== null && begun.moved) this.moveSensor(this.dragged, event);
    });
    const end = (event) => {
      if (!begun) return;
      const { moved } = begun;
      begun = null;
      const dragged = this.dragged;
      this.dragged = undefined;
      if (this.mode === "draw") this.endStroke();
      else if (event.type === "pointercancel") return;
      else if (dragged === null) this.setSensors([...this.sensors, this.place(event)]);
      else if (!moved) this.setSensors(this.sensors.filter((_, i) => i !== dragged));
    };
    surface.addEventListener("pointerup", end);
    surface.addEventListener("pointercancel", end);
    surface.addEventListener("keydown", (event) => {
      if (!this.values || event.ctrlKey || event.metaKey || event.altKey) return;
      const handled = this.mode === "draw" ? this.keyDraw(event) : this.keySensors(event);
      if (handled) event.preventDefault();
    });
    surface.addEventListener("focus", () => this.values && this.redraw());
    surface.addEventListener("blur", () => this.values && this.redraw());
  }
  moveSensor(which, event) {
    this.sensors = this.sensors.map((p, i) => (i === which ? this.place(event) : p));
    this.setSensors(this.sensors);
    this.redraw();
  }
  keySensors(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    const count = this.sensors.length;
    if (event.key === "PageDown" || event.key === "PageUp") {
      this.selected = (this.selected + (event.key === "PageDown" ? 1 : count - 1) + count) % count;
      this.page.say(`sensor ${this.selected + 1} of ${count}`);
    } else if (event.key === "Delete" && this.selected >= 0) {
      this.setSensors(this.sensors.filter((_, i) => i !== this.selected));
      this.selected = -1;
    } else if (event.key === "Insert" || event.key === "Enter") {
      this.setSensors([...this.sensors, this.item.axes.map((a) => 0.5 * (a.low + a.high))]);
      this.selected = count;
    } else if (step && this.selected >= 0) {
      this.setSensors(this.sensors.map((p, i) => (i !== this.selected ? p
        : p.map((x, k) => x + (step[k] || 0) * 0.01 * (this.item.axes[k].high - this.item.axes[k].low)))));
    } else return false;
    this.redraw();
    return true;
  }
}

/** A function of one coordinate: a curve. */
export class CurvePanel extends FunctionPanel {
  keys() {
    return "left and right move the cursor, up and down change the curve there; among sensors " +
      "Page Down selects, arrows move, Delete drops, Insert adds";
  }
  drawHint() {
    return "Drag to draw the curve. Keys: ←, → move the cursor, ↑, ↓ change the curve there.";
  }
  makePlot() {
    const [axis] = this.item.axes;
    this.x = Float64Array.from(axis.values);
    this.cursor = this.x.length >> 1;
    const [x, y] = labelsOf(this);
    this.plot = new Plots.LinePlot(this.surface, { x, y, height: 230 });
  }
  redraw() {
    const [axis] = this.item.axes;
    let x = this.x, y = this.values;
    if (axis.periodic) { // close the period
      x = Float64Array.from([...x, axis.high]);
      y = Float32Array.from([...y, y[0]]);
    }
    if (!this.drawn) {
      const { mean, std } = this.scale;
      const [low, high] = Plots.extent(y, this.observed || []);
      const pad = 0.08 * (high - low);
      this.range = [Math.min(mean - 3 * std, low - pad), Math.max(mean + 3 * std, high + pad)];
    }
    const lines = [{ name: this.item.name, x, y, style: "reference" }];
    if (this.drawn) lines.push({ name: "drawn", x: this.x, y: this.drawn, style: "c6", dash: "3 4" });
    if (this.sensors && this.sensors.length === this.observed.length)
      lines.push({ name: `${this.sensors.length} sensors`, x: this.sensors.map((p) => p[0]),
        y: this.observed, style: "c0", points: true });
    const rules = [];
    if (document.activeElement === this.surface) {
      if (this.mode === "draw") rules.push({ x: this.x[this.cursor], style: "baseline" });
      else if (this.selected >= 0 && this.sensors[this.selected])
        rules.push({ x: this.sensors[this.selected][0], style: "baseline" });
    }
    this.plot.update({ lines, rules, xRange: [axis.low, axis.high], yRange: this.range });
  }
  place(event) {
    return [this.plot.toData(event).x];
  }
  sensorAt(event) {
    const box = this.plot.svg.getBoundingClientRect(), at = event.clientX - box.left;
    const { from, to } = this.plot.xAxis;
    let best = null, least = Math.min(NEAR, 0.4 * Math.abs(to - from) / this.sensors.length);
    this.sensors.forEach(([x], i) => {
      const away = Math.abs(this.plot.xAxis.pixel(x) - at);
      if (away < least) [best, least] = [i, away];
    });
    return best;
  }
  startStroke(event) {
    this.drawn = Float32Array.from(this.values);
    this.last = null;
    this.stroke(event);
  }
  stroke(event) {
    const { x, y } = this.plot.toData(event);
    const [axis] = this.item.axes, from = this.last || { x, y };
    const [low, high] = this.range;
    const value = between(y, low, high);
    this.last = { x, y: value };
    const step = (axis.high - axis.low) / (this.x.length - (axis.periodic ? 0 : 1));
    const [a, b] = [Math.min(from.x, x), Math.max(from.x, x)];
    for (let i = 0; i < this.x.length; i++) {
      if (this.x[i] < a - 0.5 * step || this.x[i] > b + 0.5 * step) continue;
      const w = x === from.x ? 1 : between((this.x[i] - from.x) / (x - from.x), 0, 1);
      this.drawn[i] = from.y + w * (value - from.y);
    }
    this.paint(this.drawn);
    this.redraw();
  }
  endStroke() {
    const smooth = this.drawn, n = smooth.length, { periodic } = this.item.axes[0];
    for (let pass = 0; pass < SMOOTHINGS; pass++) {
      const before = Float32Array.from(smooth);
      for (let i = 0; i < n; i++) {
        const left = before[periodic ? (i + n - 1) % n : Math.max(0, i - 1)];
        const right = before[periodic ? (i + 1) % n : Math.min(n - 1, i + 1)];
        smooth[i] = 0.25 * left + 0.5 * before[i] + 0.25 * right;
      }
    }
    this.paint(smooth);
    this.drawn = null;
    this.redraw();
  }
  keyDraw(event) {
    const { std } = this.scale, n = this.x.length;
    const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const lift = { ArrowUp: 0.15, ArrowDown: -0.15 }[event.key];
    if (move) this.cursor = between(this.cursor + move * (event.shiftKey ? 10 : 2), 0, n - 1);
    else if (lift) {
      const width = n / 14, { periodic } = this.item.axes[0];
      this.paint(this.values.map((value, i) => {
        const away = Math.abs(i - this.cursor), d = periodic ? Math.min(away, n - away) : away;
        return value + lift * std * Math.exp(-0.5 * (d / width) ** 2);
      }));
    } else return false;
    this.redraw();
    return true;
  }
}

/** A function of two coordinates, or three of which one is cut: a map that is painted. */
export class MapPanel extends FunctionPanel {
  keys() {
    return "arrows move the cursor, plus and minus raise and lower the field there; among " +
      "sensors Page Down selects, arrows move, Delete drops, Insert adds";
  }
  drawHint() {
    return "Drag to paint. Keys: arrows move the cursor, + and − raise and lower the field there.";
  }
  makePlot() {
    const [a, b, c] = this.item.axes;
    [this.x, this.y] = [a.values, b.values];
    this.depth = c ? c.values.length >> 1 : null;
    this.cursor = [0.5 * (a.low + a.high), 0.5 * (b.low + b.high)];
    this.sign = 1;
    this.width = 0.12;
    const labels = labelsOf(this);
    this.plot = new Plots.FieldPlot(this.surface, { x: labels[0], y: labels[1], bar: labels.at(-1),
      equal: true, maxHeight: 300 });
    this.extra.append(
      modes([1, -1], ["Raise", "Lower"], (sign) => (this.sign = sign)),
      html("label", {}, "width", slider("width of the brush", 0.05, 0.3, 0.01, this.width,
        (v) => (this.width = v))));
    if (c) {
      const where = html("span", {});
      const tell = () => (where.textContent = `${c.name} = ${number(c.values[this.depth], 2)}`);
      tell();
      this.extra.append(html("label", {}, "cut at", slider(`cut at ${c.name}`, 0,
        c.values.length - 1, 1, this.depth, (v) => {
          this.depth = v;
          tell();
          this.redraw();
        }), where));
    }
  }
  cut(values) {
    if (this.depth === null) return values;
    const n = this.item.axes[2].values.length;
    return Float32Array.from({ length: values.length / n }, (_, i) => values[i * n + this.depth]);
  }
  redraw() {
    const { mean, std } = this.scale;
    const values = this.cut(this.drawn || this.values);
    const [low, high] = Plots.extent(values);
    const range = this.item.smooth && Math.abs(mean) < 1e-6 * std
      ? Plots.scale("diverging", [Math.min(low, -2 * std), Math.max(high, 2 * std)])
      : Plots.scale("sequential", [low, high]);
    const cursor = document.activeElement === this.surface
      ? this.mode === "draw" ? this.cursor : this.sensors[this.selected] : null;
    const markers = this.mode === "sensors" || this.sensors.length <= 200 ? this.sensors : [];
    this.plot.update({ values, x: this.x, y: this.y, scale: range, markers, cursor });
  }
  place(event) {
    const { x, y } = this.plot.toData(event);
    return this.depth === null ? [x, y] : [x, y, this.item.axes[2].values[this.depth]];
  }
  sensorAt(event) {
    const box = this.plot.svg.getBoundingClientRect();
    const [width, height] = [this.plot.xAxis, this.plot.yAxis].map(({ from, to }) => Math.abs(to - from));
    const spacing = Math.sqrt(width * height / this.sensors.length);
    let best = null, least = Math.min(NEAR, 0.4 * spacing);
    this.sensors.forEach(([x, y], i) => {
      const away = Math.hypot(this.plot.xAxis.pixel(x) - (event.clientX - box.left),
        this.plot.yAxis.pixel(y) - (event.clientY - box.top));
      if (away < least) [best, least] = [i, away];
    });
    return best;
  }
  /** Add a bump to the field. */
  bump(values, at, size) {
    const axes = this.item.axes, counts = axes.map((a) => a.values.length);
    const factors = axes.map((axis, k) => axis.values.map((x) => {
      const length = axis.high - axis.low, away = Math.abs(x - at[k]);
      const d = (axis.periodic ? Math.min(away, length - away) : away) / length;
      return Math.exp(-0.5 * (d / this.width) ** 2);
    }));
    let i = 0;
    const add = (k, weight) => {
      for (let j = 0; j < counts[k]; j++) {
        const own = weight * factors[k][j];
        if (k + 1 < counts.length) add(k + 1, own);
        else values[i++] += own;
      }
    };
    add(0, size * this.sign * this.scale.std);
    return values;
  }
  startStroke(event) {
    this.drawn = Float32Array.from(this.values);
    this.lastAt = null;
    this.stroke(event);
  }
  stroke(event) {
    const at = this.place(event);
    const moved = this.lastAt === null ? 0.4
      : Math.min(0.4, Math.hypot(...at.map((x, k) =>
        (x - this.lastAt[k]) / (this.item.axes[k].high - this.item.axes[k].low))) * 4);
    this.lastAt = at;
    this.bump(this.drawn, at, moved);
    this.paint(this.drawn);
    this.redraw();
  }
  endStroke() {
    this.drawn = null;
  }
  keyDraw(event) {
    const [a, b] = this.item.axes;
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    const lift = { "+": 0.4, "=": 0.4, "-": -0.4, "−": -0.4 }[event.key];
    if (step)
      this.cursor = [a, b].map((axis, k) =>
        between(this.cursor[k] + step[k] * 0.04 * (axis.high - axis.low), axis.low, axis.high));
    else if (lift) {
      const at = this.depth === null ? this.cursor : [...this.cursor, this.item.axes[2].values[this.depth]];
      this.paint(this.bump(Float32Array.from(this.values), at, lift * this.sign));
    } else return false;
    this.redraw();
    return true;
  }
}

/** Make the panel of an input. */
export function inputPanel(item, page) {
  if (item.axes.length === 0) return new NumberPanel(item, page);
  return item.axes.length === 1 ? new CurvePanel(item, page) : new MapPanel(item, page);
}
