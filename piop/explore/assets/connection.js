/* The socket to the server: it reconnects by itself, and reads frames of numbers. */

const FIRST_DELAY = 300, LONGEST_DELAY = 3000; // ms between attempts to reconnect

/** Read a frame: length of the header, header, arrays in float32; see piop/explore/messages.py. */
export function readFrame(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  let offset = 4 + size;
  const arrays = {};
  for (const [name, shape] of header.arrays) {
    const count = shape.reduce((a, b) => a * b, 1);
    arrays[name] = { shape, values: new Float32Array(buffer, offset, count) };
    offset += 4 * count;
  }
  return { ...header, arrays };
}

export class Connection {
  /** Takes `onmessage(message)`, `onopen()` and `onlost()`. */
  constructor(handlers) {
    Object.assign(this, handlers);
    this.delay = FIRST_DELAY;
    this.open();
  }
  open() {
    const socket = new WebSocket(`ws://${location.host}/socket`);
    socket.binaryType = "arraybuffer";
    this.socket = socket;
    socket.onopen = () => {
      this.delay = FIRST_DELAY;
      this.onopen();
    };
    socket.onmessage = ({ data }) =>
      this.onmessage(typeof data === "string" ? JSON.parse(data) : readFrame(data));
    socket.onclose = () => {
      this.onlost();
      setTimeout(() => this.open(), this.delay);
      this.delay = Math.min(2 * this.delay, LONGEST_DELAY);
    };
  }
  send(message) {
    if (this.socket.readyState !== WebSocket.OPEN) return false;
    this.socket.send(message instanceof ArrayBuffer ? message : JSON.stringify(message));
    return true;
  }
}
