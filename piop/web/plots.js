/* Plots of the report and of the interactive page: plain ES, no dependencies, no network.
 *
 * Everything is in the global object `Plots`:
 *
 *   Plots.decode(packed)              what `piop.web.pack` encoded -> {shape, values: Float32Array}
 *   Plots.extent(...arrays)           [least, greatest] finite value
 *   Plots.scale(kind, [low, high])    {kind, low, high}; kind "auto" (diverging about zero where
 *                                     values have both signs, else sequential), "sequential",
 *                                     "diverging" (symmetric about zero), "positive" (from zero)
 *   Plots.number(value, digits = 4)   text of a number
 *   new Plots.LinePlot(element, {x, y, logX, logY, height, legend, description})
 *       .update({lines, bands, rules, xRange, yRange})
 *           lines  [{name, x, y, style, points, dash, labels, muted}]; points: true draws markers
 *           bands  [{name, x, low, high, style}], shaded
 *           rules  [{name, x | y, style}], straight lines across the plot
 *           style  "reference", "prediction", "error", "bound", "baseline" or "c0" ... "c6"
 *       .toData(event) -> {x, y} of a pointer event; .element, .svg
 *   new Plots.FieldPlot(element, {x, y, bar, equal, smooth, maxHeight, description})
 *       .update({values, scale, x, y})                regular grid, values[i * y.length + j]
 *       .update({values, scale, points, triangles})   [[x, y], ...] and [[a, b, c], ...]
 *       .update({values, scale, points})              scattered points
 *           and markers: [[x, y], ...]                such as sensors
 *           and cursor: [x, y]                        that of the keyboard; null for none
 *       .toData(event) -> {x, y}; .element, .svg
 *   new Plots.Player(element, {name, unit, values, index, onchange, rate})
 *       .index, .set(index), .stop()                  play button and slider
 *   Plots.choice(element, label, names, onchange)     labelled <select>; returns the <select>
 *   Plots.value(lines, x)             linear interpolation of {x, y} at x
 *   new Plots.Axis(low, high, log)    .ticks(most) -> [{value, text}, ...]
 *
 * Axes, text and lines are SVG coloured by classes of style.css, so they follow the theme and print
 * without a redraw; fields are painted on a canvas at the resolution of the screen.
 */
"use strict";
const Plots = (() => {
  // ----------------------------------------------------------------------------- numbers
  const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";
  const power = (e) =>
    "10" + (e < 0 ? "⁻" : "") + [...String(Math.abs(e))].map((d) => SUPERSCRIPT[d]).join("");

  function number(value, digits = 4) {
    if (value === null || value === undefined || !Number.isFinite(value)) return "–";
    const size = Math.abs(value);
    if (value !== 0 && (size < 1e-3 || size >= 1e5)) {
      const [mantissa, exponent] = value.toExponential(Math.max(0, digits - 2)).split("e");
      const short = mantissa.replace(/\.?0+$/, "").replace("-", "−");
      return `${short}·${power(Number(exponent))}`;
    }
    return String(Number(value.toPrecision(digits))).replace("-", "−");
  }

  function decode(packed) {
    const bytes = Uint8Array.from(atob(packed.data), (c) => c.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    const count = packed.shape.reduce((a, b) => a * b, 1);
    const values = new Float32Array(count);
    if (packed.type === "f32") {
      for (let i = 0; i < count; i++) values[i] = view.getFloat32(4 * i, true);
    } else {
      const step = (packed.high - packed.low) / 65534;
      for (let i = 0; i < count; i++) {
        const code = view.getUint16(2 * i, true);
        values[i] = code === 65535 ? NaN : packed.low + code * step;
      }
    }
    return { shape: packed.shape, values };
  }

  function extent(...arrays) {
    let low = Infinity, high = -Infinity;
    for (const array of arrays)
      for (const value of array)
        if (Number.isFinite(value)) {
          if (value < low) low = value;
          if (value > high) high = value;
        }
    return low <= high ? [low, high] : [0, 1];
  }

  const wider = ([low, high], pad) => [low - pad * (high - low), high + pad * (high - low)];
  const between = (value, low, high) => Math.min(high, Math.max(low, value));

  /** Interpolate {x ascending, y} linearly. */
  function valueAt({ x, y }, at) {
    const i = between(nearestBelow(x, at), 0, x.length - 2);
    if (x.length < 2) return y[0];
    const weight = between((at - x[i]) / (x[i + 1] - x[i] || 1), 0, 1);
    return weight === 0 ? y[i] : weight === 1 ? y[i + 1] : y[i] * (1 - weight) + y[i + 1] * weight;
  }

  /** Greatest i with x[i] <= at, or -1. */
  function nearestBelow(x, at) {
    let low = -1, high = x.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (x[middle] <= at) low = middle;
      else high = middle;
    }
    return low;
  }

  function nearest(x, at) {
    let best = 0;
    for (let i = 1; i < x.length; i++) if (Math.abs(x[i] - at) < Math.abs(x[best] - at)) best = i;
    return best;
  }

  // ----------------------------------------------------------------------------- colours
  // anchors of matplotlib's viridis, and of ColorBrewer's RdBu from blue to red
  const MAPS = {
    sequential: [
      [68, 1, 84], [72, 26, 108], [71, 47, 125], [65, 68, 135], [57, 86, 140], [49, 104, 142],
      [42, 120, 142], [35, 136, 142], [31, 152, 139], [34, 168, 132], [53, 183, 121],
      [84, 197, 104], [122, 209, 81], [165, 219, 54], [210, 226, 27], [253, 231, 37],
    ],
    diverging: [
      [5, 48, 97], [33, 102, 172], [67, 147, 195], [146, 197, 222], [209, 229, 240],
      [247, 247, 247],
      [253, 219, 199], [244, 165, 130], [214, 96, 77], [178, 24, 43], [103, 0, 31],
    ],
  };
  const TABLES = Object.fromEntries(
    Object.entries(MAPS).map(([name, anchors]) => {
      const table = new Uint32Array(256);
      for (let i = 0; i < 256; i++) {
        const place = (i / 255) * (anchors.length - 1);
        const k = Math.min(Math.floor(place), anchors.length - 2);
        const [r, g, b] = [0, 1, 2].map((c) =>
          Math.round(anchors[k][c] + (place - k) * (anchors[k + 1][c] - anchors[k][c])));
        table[i] = (255 << 24) | (b << 16) | (g << 8) | r; // little-endian RGBA
      }
      return [name, table];
    }));

  function scale(kind, [low, high]) {
    const size = Math.max(Math.abs(low), Math.abs(high)) || 1;
    if (kind === "auto") // a little less than nothing, as of rounding, is no sign of its own
      kind = Math.min(-low, high) > 0.02 * size ? "diverging" : "sequential";
    if (kind === "diverging") return { kind, low: -size, high: size };
    if (kind === "positive") return { kind: "sequential", low: 0, high: high > 0 ? high : 1 };
    if (low === high) [low, high] = [low - 0.5 * size, high + 0.5 * size];
    return { kind, low, high };
  }

  const tableOf = (colours) => TABLES[colours.kind] || TABLES.sequential;
  const codeOf = (colours, value) =>
    between(Math.round(((value - colours.low) / (colours.high - colours.low)) * 255), 0, 255);
  const cssOf = (colours, value) => {
    const c = tableOf(colours)[codeOf(colours, value)];
    return `rgb(${c & 255},${(c >> 8) & 255},${(c >> 16) & 255})`;
  };

  // ----------------------------------------------------------------------------- axes
  function linearTicks(low, high, most) {
    const rough = (high - low) / Math.max(1, most);
    const base = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * base).find((s) => s >= rough * 0.999);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9) + (step / base === 2.5 ? 1 : 0));
    const ticks = [];
    const large = Math.max(Math.abs(low), Math.abs(high));
    const plain = large < 1e5 && large >= 1e-3;
    const significant = Math.max(3, 2 + Math.ceil(Math.log10(large / step) + 0.7)); // tells neighbours apart
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) {
      const value = k * step;
      const text = value === 0 ? "0" : plain ? value.toFixed(Math.min(digits, 8)).replace("-", "−")
        : number(value, significant);
      ticks.push({ value, text });
    }
    return ticks;
  }

  function logTicks(low, high, most) {
    const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
    if (last - first < 1) {
      const ticks = [];
      for (let e = first - 1; e <= last; e++)
        for (const m of last < first ? [1, 1.5, 2, 3, 4, 5, 6, 8] : [1, 2, 5]) {
          const value = m * 10 ** e;
          if (value >= low * 0.999 && value <= high * 1.001)
            ticks.push({ value, text: number(value, 2) });
        }
      return ticks.length > 1 ? ticks : linearTicks(low, high, most); // a range narrower than those
    }
    const every = Math.max(1, Math.ceil((last - first + 1) / most));
    const ticks = [];
    for (let e = first; e <= last; e += every)
      ticks.push({ value: 10 ** e, text: e === 0 ? "1" : power(e) });
    return ticks;
  }

  /** A map from values to pixels, with its ticks. */
  class Axis {
    constructor(low, high, log) {
      this.log = log;
      if (!(high > low)) {
        const pad = log ? 1.5 : Math.abs(low) * 0.1 || 0.5;
        [low, high] = log ? [low / pad, high * pad] : [low - pad, high + pad];
      }
      [this.low, this.high] = [low, high];
    }
    place(from, to) {
      [this.from, this.to] = [from, to];
      return this;
    }
    unit(value) {
      return this.log
        ? Math.log(value / this.low) / Math.log(this.high / this.low)
        : (value - this.low) / (this.high - this.low);
    }
    pixel(value) {
      return this.from + this.unit(value) * (this.to - this.from);
    }
    data(pixel) {
      const unit = (pixel - this.from) / (this.to - this.from);
      return this.log ? this.low * (this.high / this.low) ** unit
        : this.low + unit * (this.high - this.low);
    }
    ticks(most) {
      return (this.log ? logTicks : linearTicks)(this.low, this.high, most);
    }
  }

  // ----------------------------------------------------------------------------- elements
  const SVG = "http://www.w3.org/2000/svg";
  function svg(name, attributes = {}, text = null) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== null) element.textContent = text;
    return element;
  }
  function html(name, attributes = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  }
  const path = (xs, ys) => {
    let text = "", pen = "M";
    for (let i = 0; i < xs.length; i++) {
      if (!Number.isFinite(xs[i]) || !Number.isFinite(ys[i])) pen = "M";
      else {
        text += `${pen}${xs[i].toFixed(1)} ${ys[i].toFixed(1)}`;
        pen = "L";
      }
    }
    return text;
  };
  const TEXT = 6.4; // pixels of a character of tick labels, 11 px high
  const BAR = 9 * TEXT; // least room for the numbers beside a colour bar
  const widest = (ticks) => Math.max(0, ...ticks.map((t) => t.text.length)) * TEXT;

  /** Frame, ticks and labels around a plot; redrawn when the element changes its width. */
  class Plot {
    constructor(element, options) {
      this.element = element;
      this.options = options;
      element.classList.add("plot");
      this.svg = svg("svg", { class: "axes" });
      if (options.description) {
        this.svg.setAttribute("role", "img");
        this.svg.setAttribute("aria-label", options.description);
      } else this.svg.setAttribute("aria-hidden", "true");
      this.stage = html("div", { class: "stage" });
      this.tip = html("div", { class: "tip", hidden: "" });
      this.stage.append(this.svg, this.tip);
      element.append(this.stage);
      this.svg.addEventListener("pointermove", (event) => this.point(event));
      this.svg.addEventListener("pointerleave", () => this.unpoint());
      let width = 0;
      new ResizeObserver(() => {
        if (this.content && this.visible && element.clientWidth !== width) {
          width = element.clientWidth;
          this.draw();
        }
      }).observe(element);
    }
    update(content) {
      this.content = { ...this.content, ...content };
      if (this.visible) this.draw();
    }
    /** Whether there is room to draw in; a hidden element is drawn when it appears. */
    get visible() {
      return this.element.clientWidth >= 100;
    }
    toData(event) {
      const box = this.svg.getBoundingClientRect();
      return {
        x: this.xAxis.data(event.clientX - box.left),
        y: this.yAxis.data(event.clientY - box.top),
      };
    }
    drawAxes(xTicks, yTicks, grid) {
      const { xAxis, yAxis, options } = this;
      const parts = svg("g");
      const [left, right] = [xAxis.from, xAxis.to], [bottom, top] = [yAxis.from, yAxis.to];
      for (const { value, text } of xTicks) {
        const x = xAxis.pixel(value).toFixed(1);
        if (grid) parts.append(svg("line", { class: "grid", x1: x, x2: x, y1: bottom, y2: top }));
        parts.append(svg("line", { class: "tick", x1: x, x2: x, y1: bottom, y2: bottom + 4 }));
        parts.append(svg("text", { x, y: bottom + 16, "text-anchor": "middle" }, text));
      }
      for (const { value, text } of yTicks) {
        const y = yAxis.pixel(value).toFixed(1);
        if (grid) parts.append(svg("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }));
        parts.append(svg("line", { class: "tick", x1: left - 4, x2: left, y1: y, y2: y }));
        parts.append(svg("text", { x: left - 7, y: Number(y) + 3.5, "text-anchor": "end" }, text));
      }
      const middle = (left + right) / 2;
      parts.append(svg("text", { class: "label", x: middle, y: bottom + 33,
        "text-anchor": "middle" }, options.x || ""));
      parts.append(svg("text", { class: "label", x: Math.max(2, left - 34), y: top - 8 },
        options.y || ""));
      parts.append(svg("path", { class: "frame",
        d: grid ? `M${left} ${top}V${bottom}H${right}` : `M${left} ${top}V${bottom}H${right}V${top}Z` }));
      return parts;
    }
    size(width, height) {
      this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      this.svg.setAttribute("width", width);
      this.svg.setAttribute("height", height);
      this.stage.style.height = `${height}px`;
    }
    showTip(x, y, rows) {
      this.tip.replaceChildren(...rows.map((row) => html("div", {}, row)));
      this.tip.hidden = false;
      const over = x > this.element.clientWidth / 2;
      this.tip.style.left = over ? "" : `${x + 12}px`;
      this.tip.style.right = over ? `${this.element.clientWidth - x + 12}px` : "";
      this.tip.style.top = `${Math.max(0, y - 10)}px`;
    }
    unpoint() {
      this.tip.hidden = true;
      this.hair?.remove();
    }
    point() {}
    draw() {}
  }

  // ----------------------------------------------------------------------------- lines
  class LinePlot extends Plot {
    constructor(element, options = {}) {
      super(element, options);
      this.legend = html("ul", { class: "legend" });
      if (options.legend !== false) element.prepend(this.legend);
    }
    /** Range of one axis over everything that is drawn, with a margin. */
    range(key, log, fixed) {
      if (fixed) return fixed;
      const { lines = [], bands = [], rules = [] } = this.content;
      const arrays = lines.map((line) => line[key]);
      if (key === "y") arrays.push(...bands.flatMap((band) => [band.low, band.high]));
      arrays.push(...rules.filter((rule) => rule[key] !== undefined).map((rule) => [rule[key]]));
      let [low, high] = extent(...arrays.map((a) => (log ? Array.from(a).filter((v) => v > 0) : a)));
      if (log) {
        if (low <= 0) return [0.1, 1];
        const pad = (high / low) ** 0.04 * (key === "y" ? 1.02 : 1);
        return [low / pad, high * pad];
      }
      const marked = lines.some((line) => line.points);
      const pad = (high - low) * (key === "y" || marked ? 0.05 : 0);
      return [low - pad, high + pad];
    }
    draw() {
      const { options, content } = this;
      const { lines = [], bands = [], rules = [] } = content;
      const width = this.element.clientWidth;
      const height = options.height || Math.round(between(width * 0.62, 180, 300));
      const [x0, x1] = this.range("x", options.logX, content.xRange);
      const [y0, y1] = this.range("y", options.logY, content.yRange);
      this.xAxis = new Axis(x0, x1, options.logX);
      this.yAxis = new Axis(y0, y1, options.logY);
      const yTicks = this.yAxis.ticks(Math.max(2, Math.floor((height - 60) / 40)));
      const left = Math.max(36, 12 + widest(yTicks));
      this.xAxis.place(left, width - 12);
      this.yAxis.place(height - (options.x ? 40 : 24), options.y ? 24 : 10);
      const xTicks = this.xAxis.ticks(Math.max(2, Math.floor((width - left) / 64)));
      this.size(width, height);
      const clip = `clip${(LinePlot.count = (LinePlot.count || 0) + 1)}`;
      const [top, bottom] = [this.yAxis.to, this.yAxis.from];
      const defs = svg("defs"), region = svg("clipPath", { id: clip });
      region.append(svg("rect", { x: left - 3, y: top - 3, width: width - 12 - left + 6,
        height: bottom - top + 6 }));
      defs.append(region);
      const marks = svg("g", { "clip-path": `url(#${clip})` });
      const px = (values) => Array.from(values, (v) => this.xAxis.pixel(v));
      const py = (values) => Array.from(values, (v) =>
        options.logY && !(v > 0) ? NaN : this.yAxis.pixel(v));
      for (const band of bands) marks.append(this.band(band, px, py));
      for (const rule of rules) {
        const across = rule.y !== undefined;
        const at = across ? this.yAxis.pixel(rule.y) : this.xAxis.pixel(rule.x);
        marks.append(svg("line", { class: `line ${rule.style || "baseline"}`,
          ...(across ? { x1: left, x2: width - 12, y1: at, y2: at }
            : { x1: at, x2: at, y1: top, y2: bottom }) }));
      }
      for (const line of lines) {
        const [xs, ys] = [px(line.x), py(line.y)];
        if (line.points) {
          for (let i = 0; i < xs.length; i++)
            if (Number.isFinite(xs[i]) && Number.isFinite(ys[i]))
              marks.append(svg("circle", { class: `dot ${line.style || "c0"}`, cx: xs[i].toFixed(1),
                cy: ys[i].toFixed(1), r: 3 }));
        } else {
          const drawn = svg("path", { class: `line ${line.style || "c0"}`, d: path(xs, ys) });
          if (line.dash) drawn.setAttribute("stroke-dasharray", line.dash);
          if (line.muted) drawn.classList.add("muted");
          marks.append(drawn);
        }
      }
      this.svg.replaceChildren(defs, this.drawAxes(xTicks, yTicks, true), marks);
      if (options.legend !== false) this.drawLegend([...bands, ...lines, ...rules]);
    }
    /** A band; where a lower end is missing it reaches to the bottom. */
    band({ x, low, high, style }, px, py) {
      const xs = px(x), bottom = this.yAxis.from;
      const lows = py(low).map((v) => (Number.isFinite(v) ? v : bottom)), highs = py(high);
      const whole = xs.map((_, i) => i).filter((i) => Number.isFinite(highs[i]));
      const forth = whole.map((i) => `${xs[i].toFixed(1)} ${highs[i].toFixed(1)}`);
      const back = whole.reverse().map((i) => `${xs[i].toFixed(1)} ${lows[i].toFixed(1)}`);
      const d = forth.length ? `M${[...forth, ...back].join("L")}Z` : "";
      return svg("path", { class: `band ${style || "bound"}`, d });
    }
    drawLegend(items) {
      const named = items.filter((item) => item.name);
      const text = named.map((i) => `${i.name}${i.style}${i.points}`).join("|");
      if (text === this.legendText) return;
      this.legendText = text;
      this.legend.replaceChildren(...named.map((item) => {
        const key = svg("svg", { width: 22, height: 10, "aria-hidden": "true" });
        const usual = item.low ? "bound" : item.x && item.y ? "c0" : "baseline";
        const style = item.style || usual;
        if (item.low) key.append(svg("rect", { class: `band ${style}`, width: 22, height: 10 }));
        else if (item.points) key.append(svg("circle", { class: `dot ${style}`, cx: 11, cy: 5, r: 3 }));
        else {
          const drawn = svg("line", { class: `line ${style}`, x1: 0, x2: 22, y1: 5, y2: 5 });
          if (item.dash) drawn.setAttribute("stroke-dasharray", item.dash);
          key.append(drawn);
        }
        return html("li", {}, key, item.name);
      }));
    }
    point(event) {
      if (!this.xAxis) return;
      const box = this.svg.getBoundingClientRect();
      const [px, py] = [event.clientX - box.left, event.clientY - box.top];
      if (px < this.xAxis.from - 4 || px > this.xAxis.to + 4) return this.unpoint();
      const { lines = [], bands = [] } = this.content;
      const dots = lines.find((line) => line.points);
      this.hair?.remove();
      if (dots) {
        const [xs, ys] = [dots.x, dots.y].map((v) => Array.from(v));
        const distance = xs.map((x, i) =>
          Math.hypot(this.xAxis.pixel(x) - px, this.yAxis.pixel(ys[i]) - py));
        const i = distance.reduce((best, d, k) => (d < distance[best] ? k : best), 0);
        if (!(distance[i] < 24)) return this.unpoint();
        this.hair = svg("circle", { class: "hair", cx: this.xAxis.pixel(xs[i]),
          cy: this.yAxis.pixel(ys[i]), r: 6 });
        this.svg.append(this.hair);
        const head = dots.labels ? [String(dots.labels[i])] : [];
        return this.showTip(px, py, [...head, `${this.options.x || "x"}: ${number(xs[i])}`,
          `${this.options.y || "y"}: ${number(ys[i])}`]);
      }
      const first = lines[0] || (bands[0] && { x: bands[0].x });
      if (!first || !first.x.length) return undefined;
      const at = first.x[nearest(first.x, this.xAxis.data(px))];
      const x = this.xAxis.pixel(at);
      this.hair = svg("line", { class: "hair", x1: x, x2: x, y1: this.yAxis.from,
        y2: this.yAxis.to });
      this.svg.append(this.hair);
      const rows = [`${this.options.x || "x"}: ${number(at)}`];
      for (const line of lines.filter((l) => l.name))
        rows.push(`${line.name}: ${number(valueAt(line, at))}`);
      for (const band of bands.filter((b) => b.name)) {
        const [low, high] = [band.low, band.high].map((y) => number(valueAt({ x: band.x, y }, at), 3));
        rows.push(`${band.name}: ${low} to ${high}`);
      }
      return this.showTip(x, py, rows);
    }
  }

  // ----------------------------------------------------------------------------- fields
  const MOST_PIXELS = 350000; // of a painted field

  /** Corners and weights of each pixel [4 per pixel] of a regular grid. */
  function gridSampler(x, y, width, height, smooth) {
    const place = (ticks, count, flip) => {
      const low = ticks[0], high = ticks[ticks.length - 1];
      return Array.from({ length: count }, (_, p) => {
        const unit = count < 2 ? 0.5 : (p + 0.5) / count;
        const at = low + (flip ? 1 - unit : unit) * (high - low);
        const i = between(nearestBelow(ticks, at), 0, Math.max(0, ticks.length - 2));
        if (ticks.length < 2) return [0, 0, 0];
        const w = between((at - ticks[i]) / (ticks[i + 1] - ticks[i]), 0, 1);
        return [i, i + 1, smooth ? w : Math.round(w)];
      });
    };
    const columns = place(x, width, false), rows = place(y, height, true);
    const index = new Int32Array(4 * width * height), weight = new Float32Array(4 * width * height);
    let k = 0;
    for (const [j0, j1, v] of rows)
      for (const [i0, i1, u] of columns) {
        index[k] = i0 * y.length + j0; weight[k++] = (1 - u) * (1 - v);
        index[k] = i1 * y.length + j0; weight[k++] = u * (1 - v);
        index[k] = i0 * y.length + j1; weight[k++] = (1 - u) * v;
        index[k] = i1 * y.length + j1; weight[k++] = u * v;
      }
    return { index, weight, width, height };
  }

  /** The same of triangles; pixels outside have no weight. */
  function triangleSampler(points, triangles, xAxis, yAxis, width, height) {
    const index = new Int32Array(4 * width * height), weight = new Float32Array(4 * width * height);
    const px = points.map((p) => xAxis.unit(p[0]) * width - 0.5);
    const py = points.map((p) => (1 - yAxis.unit(p[1])) * height - 0.5);
    for (const [a, b, c] of triangles) {
      const area = (px[b] - px[a]) * (py[c] - py[a]) - (px[c] - px[a]) * (py[b] - py[a]);
      if (area === 0) continue;
      const [x0, x1] = [Math.min(px[a], px[b], px[c]), Math.max(px[a], px[b], px[c])];
      const [y0, y1] = [Math.min(py[a], py[b], py[c]), Math.max(py[a], py[b], py[c])];
      for (let j = Math.max(0, Math.ceil(y0)); j <= Math.min(height - 1, Math.floor(y1)); j++)
        for (let i = Math.max(0, Math.ceil(x0)); i <= Math.min(width - 1, Math.floor(x1)); i++) {
          const wb = ((i - px[a]) * (py[c] - py[a]) - (px[c] - px[a]) * (j - py[a])) / area;
          const wc = ((px[b] - px[a]) * (j - py[a]) - (i - px[a]) * (py[b] - py[a])) / area;
          const wa = 1 - wb - wc;
          if (wa < -1e-6 || wb < -1e-6 || wc < -1e-6) continue;
          const k = 4 * (j * width + i);
          index.set([a, b, c, c], k);
          weight.set([wa, wb, wc, 0], k);
        }
    }
    return { index, weight, width, height };
  }

  class FieldPlot extends Plot {
    constructor(element, options = {}) {
      super(element, options);
      this.canvas = html("canvas", { "aria-hidden": "true" });
      this.bar = html("canvas", { "aria-hidden": "true", width: 1, height: 256 });
      this.stage.prepend(this.canvas, this.bar);
    }
    update(content) {
      if ("x" in content) this.content = { ...this.content, points: null, triangles: null };
      if ("points" in content)
        this.content = { ...this.content, x: null, y: null, triangles: null };
      super.update(content);
    }
    draw() {
      const { options, content } = this;
      const { x, y, points } = content;
      const pad = x || content.triangles ? 0 : 0.03; // room for discs at the edge
      const [x0, x1] = wider(x ? extent(x) : extent(points.map((p) => p[0])), pad);
      const [y0, y1] = wider(y ? extent(y) : extent(points.map((p) => p[1])), pad);
      const colours = content.scale || scale("auto", extent(content.values));
      this.xAxis = new Axis(x0, x1, false);
      this.yAxis = new Axis(y0, y1, false);
      const barAxis = new Axis(colours.low, colours.high, false);
      const width = this.element.clientWidth;
      const limit = options.maxHeight || 320;
      let inner = between(width * 0.62, 120, limit);
      const barTicks = barAxis.ticks(4);
      const left = Math.max(36, 12 + widest(this.yAxis.ticks(5)));
      const right = 30 + Math.max(BAR, widest(barTicks)); // so that maps beside each other are alike
      let across = Math.max(40, width - left - right);
      if (options.equal) {
        const ratio = (y1 - y0) / (x1 - x0);
        inner = Math.min(across * ratio, limit);
        across = inner / ratio;
      }
      const top = options.y || options.bar ? 24 : 8;
      const height = top + inner + (options.x ? 40 : 24);
      this.size(width, height);
      this.xAxis.place(left, left + across);
      this.yAxis.place(top + inner, top);
      barAxis.place(top + inner, top);
      this.paint(colours, left, top, across, inner);
      Object.assign(this.bar.style, { left: `${left + across + 10}px`, top: `${top}px`,
        width: "10px", height: `${inner}px` });
      if (this.painted !== colours.kind) {
        this.painted = colours.kind;
        const brush = this.bar.getContext("2d"), image = brush.createImageData(1, 256);
        const table = tableOf(colours), pixels = new Uint32Array(image.data.buffer);
        for (let i = 0; i < 256; i++) pixels[i] = table[255 - i];
        brush.putImageData(image, 0, 0);
      }
      const xTicks = this.xAxis.ticks(Math.max(2, Math.floor(across / 56)));
      const yTicks = this.yAxis.ticks(Math.max(2, Math.floor(inner / 40)));
      const parts = this.drawAxes(xTicks, yTicks, false);
      const edge = left + across + 20;
      for (const { value, text } of barTicks) {
        const at = barAxis.pixel(value);
        parts.append(svg("line", { class: "tick", x1: edge, x2: edge + 3, y1: at, y2: at }));
        parts.append(svg("text", { x: edge + 6, y: at + 3.5 }, text));
      }
      parts.append(svg("text", { class: "label", x: Math.min(width - 2, edge + 6 + widest(barTicks)),
        y: top - 8, "text-anchor": "end" }, options.bar || ""));
      for (const [mx, my] of content.markers || [])
        parts.append(svg("circle", { class: "sensor", cx: this.xAxis.pixel(mx),
          cy: this.yAxis.pixel(my), r: 2.5 }));
      if (content.cursor) {
        const [cx, cy] = [this.xAxis.pixel(content.cursor[0]), this.yAxis.pixel(content.cursor[1])];
        parts.append(svg("circle", { class: "cursor outer", cx, cy, r: 8 }),
          svg("circle", { class: "cursor", cx, cy, r: 8 }));
      }
      this.svg.replaceChildren(parts);
    }
    paint(colours, left, top, across, inner) {
      const { values, x, y, points, triangles } = this.content;
      const fine = Math.min(window.devicePixelRatio || 1, 2,
        Math.sqrt(MOST_PIXELS / Math.max(1, across * inner)));
      const [w, h] = [Math.max(1, Math.round(across * fine)), Math.max(1, Math.round(inner * fine))];
      const canvas = this.canvas;
      Object.assign(canvas.style, { left: `${left}px`, top: `${top}px`, width: `${across}px`,
        height: `${inner}px` });
      if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
      const brush = canvas.getContext("2d");
      if (!x && !triangles) {
        brush.clearRect(0, 0, w, h);
        const radius = between(0.5 * Math.sqrt((w * h) / Math.max(1, points.length)), 1.5, 7);
        points.forEach((p, i) => {
          if (!Number.isFinite(values[i])) return;
          brush.fillStyle = cssOf(colours, values[i]);
          brush.beginPath();
          brush.arc(this.xAxis.unit(p[0]) * w, (1 - this.yAxis.unit(p[1])) * h, radius, 0, 7);
          brush.fill();
        });
        return;
      }
      const known = this.sampler;
      if (!known || known.width !== w || known.height !== h || known.x !== x || known.y !== y ||
          known.points !== points || known.triangles !== triangles) {
        const made = x ? gridSampler(x, y, w, h, this.options.smooth !== false)
          : triangleSampler(points, triangles, this.xAxis, this.yAxis, w, h);
        this.sampler = { ...made, x, y, points, triangles };
      }
      const { index, weight } = this.sampler;
      const image = brush.createImageData(w, h), pixels = new Uint32Array(image.data.buffer);
      const table = tableOf(colours), slope = 255 / (colours.high - colours.low);
      for (let p = 0, k = 0; p < w * h; p++, k += 4) {
        const [a, b, c, d] = [weight[k], weight[k + 1], weight[k + 2], weight[k + 3]];
        if (a + b + c + d === 0) continue; // outside
        let value = 0;
        if (a) value += a * values[index[k]];
        if (b) value += b * values[index[k + 1]];
        if (c) value += c * values[index[k + 2]];
        if (d) value += d * values[index[k + 3]];
        if (value !== value) { // beside a missing value: that of the closest corner
          const most = Math.max(a, b, c, d);
          value = values[index[k + (a === most ? 0 : b === most ? 1 : c === most ? 2 : 3)]];
          if (value !== value) continue;
        }
        const code = Math.round((value - colours.low) * slope);
        pixels[p] = table[code < 0 ? 0 : code > 255 ? 255 : code];
      }
      brush.putImageData(image, 0, 0);
    }
    point(event) {
      if (!this.xAxis) return undefined;
      const { values, x, y, points } = this.content;
      const { x: ax, y: ay } = this.toData(event);
      const inside = (axis, v) => v >= axis.low && v <= axis.high;
      if (!inside(this.xAxis, ax) || !inside(this.yAxis, ay)) return this.unpoint();
      let at, place;
      if (x) {
        const [i, j] = [nearest(x, ax), nearest(y, ay)];
        [at, place] = [i * y.length + j, [x[i], y[j]]];
      } else {
        at = points.reduce((best, p, i) =>
          (p[0] - ax) ** 2 + (p[1] - ay) ** 2 <
          (points[best][0] - ax) ** 2 + (points[best][1] - ay) ** 2 ? i : best, 0);
        place = points[at];
      }
      if (!Number.isFinite(values[at])) return this.unpoint();
      const box = this.svg.getBoundingClientRect();
      return this.showTip(event.clientX - box.left, event.clientY - box.top, [
        `${this.options.x || "x"}: ${number(place[0], 3)}`,
        `${this.options.y || "y"}: ${number(place[1], 3)}`,
        `${this.options.bar || "value"}: ${number(values[at])}`,
      ]);
    }
  }

  // ----------------------------------------------------------------------------- controls
  class Player {
    constructor(element, { name, unit = "", values, index = 0, onchange, rate = 12 }) {
      Object.assign(this, { name, unit, values, onchange, rate, index, timer: null });
      element.classList.add("player");
      this.button = html("button", { type: "button", "aria-label": `play ${name}` }, "▶");
      this.slider = html("input", { type: "range", min: 0, max: values.length - 1, step: 1,
        "aria-label": name });
      this.output = html("output", {});
      element.replaceChildren(this.button, this.slider, this.output);
      this.slider.addEventListener("input", () => {
        this.stop();
        this.set(Number(this.slider.value));
      });
      this.button.addEventListener("click", () => (this.timer ? this.stop() : this.play()));
      this.show();
    }
    show() {
      const text = `${this.name} = ${number(this.values[this.index], 3)}${this.unit ? ` ${this.unit}` : ""}`;
      this.slider.value = this.index;
      this.slider.setAttribute("aria-valuetext", text);
      this.output.textContent = text;
    }
    set(index) {
      this.index = between(index, 0, this.values.length - 1);
      this.show();
      this.onchange?.(this.index);
    }
    play() {
      if (this.index >= this.values.length - 1) this.set(0);
      this.button.textContent = "❚❚";
      this.button.setAttribute("aria-label", `stop ${this.name}`);
      this.timer = setInterval(() => {
        if (this.index >= this.values.length - 1) this.stop();
        else this.set(this.index + 1);
      }, 1000 / this.rate);
    }
    stop() {
      clearInterval(this.timer);
      this.timer = null;
      this.button.textContent = "▶";
      this.button.setAttribute("aria-label", `play ${this.name}`);
    }
  }

  function choice(element, label, names, onchange) {
    const select = html("select", {}, ...names.map((n, i) => html("option", { value: i }, n)));
    select.addEventListener("change", () => onchange(Number(select.value)));
    element.append(html("label", { class: "choice" }, `${label} `, select));
    return select;
  }

  return { decode, extent, scale, number, value: valueAt, Axis, LinePlot, FieldPlot, Player, choice, html };
})();
