/* The page: its state, the requests for it, and where each answer goes. */

import { Connection } from "./connection.js";
import { encodeState, decodeState } from "./link.js";
import { inputPanel } from "./inputs.js";
import { Answer } from "./answers.js";

const { html } = Plots;
const LARGEST_FILE = 4 * 2 ** 20; // bytes of an uploaded file
const LARGEST_SEED = 2 ** 32 - 1;
const find = (id) => document.getElementById(id);

class Page {
  constructor() {
    this.number = 0; // of the newest request
    this.sent = new Map(); // number of a request -> when it was sent, and for which inputs
    this.about = null;
    this.state = { inputs: {}, sensors: {}, frame: 0, unknown: 0 };
    addEventListener("hashchange", () => this.restore().then(() => this.request()));
    addEventListener("keydown", (event) => {
      const typing = event.target.matches?.("input, select, textarea");
      if (event.key === "n" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey)
        this.redrawAll();
    });
    this.connection = new Connection({
      onmessage: (message) => this.receive(message),
      onopen: () => (find("banner").hidden = true),
      onlost: () => this.lost(),
    });
  }

  // ------------------------------------------------------------------------ state
  /** The state with which an input begins: the first draw, the sensors of the spec. */
  initial() {
    const inputs = Object.fromEntries(
      this.about.inputs.map((item) => [item.name, { kind: "draw", seed: 0 }]));
    return { inputs, sensors: {}, frame: this.firstFrame(), unknown: 0 };
  }
  firstFrame() {
    const { moving, times } = this.about.display;
    return moving ? (times.length - 1) >> 1 : 0;
  }
  async restore() {
    const text = location.hash.replace(/^#(s=)?/, "");
    if (text === this.written && text) return;
    this.state = this.initial();
    try {
      const found = await decodeState(location.hash.startsWith("#s=") ? text : "");
      if (found) this.adopt(found);
    } catch (error) {
      this.say("The address holds no valid state; the first input is shown.");
    }
  }
  /** Take over what fits; the server checks the rest. */
  adopt(found) {
    const plain = (v) => v !== null && typeof v === "object" && !Array.isArray(v);
    for (const { name } of this.about.inputs) {
      if (plain(found.inputs) && plain(found.inputs[name])) this.state.inputs[name] = found.inputs[name];
      if (plain(found.sensors) && plain(found.sensors[name])) this.state.sensors[name] = found.sensors[name];
    }
    const { display, channels } = this.about;
    const frames = display.moving ? display.times.length : 1;
    if (Number.isInteger(found.frame) && found.frame >= 0 && found.frame < frames)
      this.state.frame = found.frame;
    if (Number.isInteger(found.unknown) && found.unknown >= 0 && found.unknown < channels.length)
      this.state.unknown = found.unknown;
  }
  /** Write the state into the address, once it rests. */
  write() {
    clearTimeout(this.writing);
    this.writing = setTimeout(async () => {
      this.written = await encodeState(this.state);
      const path = location.pathname + (this.written ? `#s=${this.written}` : "");
      history.replaceState(null, "", path);
      document.body.dataset.linked = this.written ? "yes" : "no";
    }, 250);
  }

  // ------------------------------------------------------------------------ changes
  change(name, definition) {
    this.state.inputs[name] = definition;
    this.request();
  }
  place(name, layout) {
    if (layout === null) delete this.state.sensors[name];
    else this.state.sensors[name] = layout;
    this.request();
  }
  redraw(name) {
    const now = this.state.inputs[name];
    const seed = now.kind === "draw" ? now.seed + 1 : this.lastSeed() + 1;
    this.change(name, { kind: "draw", seed: seed % LARGEST_SEED });
  }
  redrawAll() {
    const seed = (this.lastSeed() + 1) % LARGEST_SEED;
    for (const { name } of this.about.inputs) this.state.inputs[name] = { kind: "draw", seed };
    this.request();
  }
  /** The largest seed that was drawn so far. */
  lastSeed() {
    const own = Object.values(this.state.inputs).map((d) => d.seed ?? d.base?.seed ?? 0);
    return (this.seed = Math.max(this.seed || 0, ...own));
  }
  seek(frame) {
    this.state.frame = frame;
    if (this.answer.whole || this.about.mode === "spec") this.write();
    else this.request();
  }
  choose(channel) {
    this.state.unknown = channel;
    this.write();
  }

  // ------------------------------------------------------------------------ messages
  /** Ask for the answer to the state as it is, once in a frame of the screen. */
  request() {
    this.lastSeed();
    this.write();
    this.moved = performance.now();
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      const { inputs, sensors, frame } = this.state;
      const id = ++this.number;
      const [own, places] = [JSON.stringify(inputs), JSON.stringify(sensors)];
      this.sent.set(id, { at: this.moved, inputs: own, operator: own + places });
      this.connection.send({ type: "show", id, inputs, sensors, frame });
      this.answer.cards.stale();
    });
  }
  receive(message) {
    const handlers = {
      hello: () => this.hello(message),
      answer: () => this.shown(message),
      trust: () => this.newest(message, () => {
        this.answer.setTrust(message);
        this.speak();
      }),
      whole: () => this.newest(message, () => this.answer.setWhole(message)),
      solving: () => this.newest(message, () => this.solving()),
      reference: () => this.newest(message, () => {
        this.answer.setReference(message);
        this.status("");
        this.speak();
        document.body.dataset.reference = message.id;
      }),
      uploaded: () => this.uploaded(message),
      error: () => this.failed(message),
    };
    handlers[message.type]?.();
  }
  newest(message, then) {
    if (message.id === this.number) then();
  }
  shown(message) {
    const { at, inputs, operator } = this.sent.get(message.id) || { at: performance.now() };
    for (const id of this.sent.keys()) if (id <= message.id) this.sent.delete(id);
    const fresh = { inputs: inputs !== this.shownInputs, operator: operator !== this.shownOperator };
    [this.shownInputs, this.shownOperator] = [inputs, operator];
    this.panels.forEach((panel) => panel.show(message));
    this.answer.atTime(message, fresh);
    this.say("");
    document.body.dataset.answer = message.id;
    // milliseconds from the last movement that the answer is of
    document.body.dataset.latency = (performance.now() - at).toFixed(1);
    if (this.about.unsolved) this.answer.cards.unsolved(this.about.unsolved);
  }
  solving() {
    if (!this.answer.reference) this.answer.cards.solving();
    this.status(this.about.mode === "spec" ? "Solving the reference …" : "");
  }
  failed({ stage, message, id }) {
    if (id !== undefined && id !== this.number) return;
    if (stage === "reference") {
      this.answer.cards.unsolved(message);
      this.status("");
      this.speak();
    } else this.say(message);
  }
  uploaded({ inputs, samples }) {
    Object.assign(this.state.inputs, inputs);
    for (const name of Object.keys(inputs)) delete this.state.sensors[name];
    this.request();
    this.uploadNote = samples > 1 ? `The first of ${samples} samples of the file is shown.` : "";
    this.say(this.uploadNote);
  }
  async upload(file) {
    if (file.size > LARGEST_FILE)
      return this.say(`${file.name} has ${file.size} bytes; at most ${LARGEST_FILE} are read.`);
    return this.connection.send(await file.arrayBuffer());
  }
  say(text) {
    if (!text && this.uploadNote) {
      this.uploadNote = "";
      return;
    }
    find("notice").textContent = text;
  }
  status(text) {
    this.answer.status.textContent = text;
  }
  speak() {
    clearTimeout(this.speaking);
    this.speaking = setTimeout(() => (find("live").textContent = this.answer.cards.spoken()), 400);
  }
  lost() {
    const banner = find("banner");
    const source = this.about ? this.about.source : "RUN";
    banner.replaceChildren("Connection lost. Restart it with ",
      html("code", {}, `piop explore ${source} --port ${location.port}`), "; this page connects again by itself.");
    banner.hidden = false;
  }

  // ------------------------------------------------------------------------ building
  async hello(about) {
    const before = this.about;
    if (before) { // connected again
      const same = JSON.stringify({ ...before, type: "" }) === JSON.stringify({ ...about, type: "" });
      if (same) return this.request();
      location.reload();
      return undefined;
    }
    this.about = about;
    document.title = `${about.name} – piop explore`;
    find("title").textContent = about.title ? `${about.name}: ${about.title}` : about.name;
    find("equations").textContent = about.equations.join("   ;   ");
    await this.restore();
    this.answer = new Answer(find("answer"), about, this);
    this.answer.seek(this.state.frame);
    this.answer.choose(this.state.unknown);
    this.buildTools();
    this.panels = about.inputs.map((item) => inputPanel(item, this));
    if (this.panels.length) find("inputs").replaceChildren(...this.panels.map((p) => p.element));
    else find("inputs").replaceChildren(html("div", { class: "input" }, html("h2", {}, "Inputs"),
      html("p", {}, "This problem has no inputs: it has one solution.")));
    this.buildAbout();
    return this.request();
  }
  buildTools() {
    const tools = find("tools");
    const button = (text, onclick) => {
      const made = html("button", { type: "button" }, text);
      made.addEventListener("click", onclick);
      tools.append(made);
      return made;
    };
    if (this.about.inputs.length) {
      button("New random input (n)", () => this.redrawAll());
      const file = html("input", { type: "file", accept: ".csv,.nc,.npz,.h5", class: "hidden-text",
        tabindex: "-1", "aria-hidden": "true" });
      file.addEventListener("change", () => {
        if (file.files.length) this.upload(file.files[0]);
        file.value = "";
      });
      tools.append(file);
      button("Upload sensors …", () => file.click());
      button("Start over", () => {
        this.state = { ...this.initial(), frame: this.state.frame, unknown: this.state.unknown };
        this.request();
      });
    }
    const share = button("Copy link", async () => {
      try {
        await navigator.clipboard.writeText(location.href);
        share.textContent = "Copied";
      } catch {
        share.textContent = "Copy the address above";
      }
      setTimeout(() => (share.textContent = "Copy link"), 1500);
    });
  }
  buildAbout() {
    const { about } = this;
    const rows = about.conditions.map((c) => html("tr", {}, html("td", {}, c.condition),
      html("td", {}, c.built_in ? "hard constraint" : "soft constraint"), html("td", {}, c.why)));
    const head = html("tr", {}, ...["condition", "how it is met", "why"].map((t) =>
      html("th", { scope: "col" }, t)));
    find("about").replaceChildren(html("h2", {}, "The spec"),
      html("details", about.mode === "spec" ? { open: "" } : {}, html("summary", {}, "Description"),
        html("pre", {}, about.description)),
      ...(rows.length ? [html("details", about.mode === "spec" ? { open: "" } : {},
        html("summary", {}, "Conditions"),
        html("div", { class: "scroll" }, html("table", {}, head, ...rows)))] : []),
      html("p", {}, html("small", {}, about.mode === "run"
        ? `Run ${about.source}, piop ${about.version}.`
        : `Spec ${about.source}, piop ${about.version}: nothing is trained, so no operator is shown.`)));
  }
}

new Page();
