/* The state of the page within its address: JSON, compressed, of bounded length. */

const LONGEST = 16000; // characters of the address
const LARGEST = 400000; // characters of the state

async function through(stream, bytes) {
  const writer = stream.writable.getWriter();
  writer.write(bytes).catch(() => {});
  writer.close().catch(() => {});
  const reader = stream.readable.getReader(), parts = [];
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > LARGEST) {
      reader.cancel().catch(() => {});
      throw new Error("the state in the address is too large");
    }
    parts.push(value);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/** Return the state as text for an address; null where it is too long. */
export async function encodeState(state) {
  const text = new TextEncoder().encode(JSON.stringify(state));
  const bytes = await through(new CompressionStream("deflate-raw"), text);
  const base = btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(""));
  const found = base.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  return found.length > LONGEST ? null : found;
}

/** Return the state that an address holds; null where it holds none. Throws where it is damaged. */
export async function decodeState(text) {
  if (!text) return null;
  if (text.length > LONGEST) throw new Error("the address is too long");
  const raw = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(raw, (c) => c.charCodeAt(0));
  const found = await through(new DecompressionStream("deflate-raw"), bytes);
  const state = JSON.parse(new TextDecoder().decode(found));
  if (state === null || typeof state !== "object" || Array.isArray(state))
    throw new Error("the address holds no state");
  return state;
}
