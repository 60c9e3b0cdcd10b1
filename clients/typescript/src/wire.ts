/** Frames and envelopes (docs/PROTOCOL.md, sections 3 and 4). */

/** A JSON object. */
export type Members = Record<string, unknown>;

export const text = (value: unknown) => (typeof value === "string" ? value : undefined);
export const number = (value: unknown) => (typeof value === "number" ? value : undefined);

/** Returns the value if it is an object, or an empty object. */
export function members(value: unknown): Members {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return isObject ? (value as Members) : {};
}

/** Encodes an envelope as a frame. */
export function encode(type: string, id: string, payload: object, others: object = {}): Buffer {
  const json = JSON.stringify({ v: 1, type, id, ts: Date.now(), ...others, payload });
  const frame = Buffer.from(`    ${json}`); // The blanks make room for the length.
  frame.writeUInt32BE(frame.length - 4);
  return frame;
}

/** Divides a stream of bytes into frames. Its buffer is at most about twice as long as a frame. */
export class FrameReader {
  private readonly decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  private buffer = Buffer.alloc(0);
  private start = 0;
  private end = 0;

  constructor(public bytesMax = 1024 * 1024) {}

  /** Yields the JSON of each complete frame. Throws if a frame is empty, too long, or not UTF-8. */
  *read(chunk: Buffer): Generator<string> {
    this.append(chunk);
    while (this.end - this.start >= 4) {
      const first = this.start + 4;
      const bytes = this.buffer.readUInt32BE(this.start);
      if (bytes === 0 || bytes > this.bytesMax) throw new Error(`a frame has ${bytes} bytes`);
      if (this.end < first + bytes) return;
      this.start = first + bytes;
      yield this.decoder.decode(this.buffer.subarray(first, this.start));
    }
    if (this.start === this.end) {
      this.buffer = Buffer.alloc(0);
      this.start = this.end = 0;
    }
  }

  private append(chunk: Buffer): void {
    if (this.end + chunk.length > this.buffer.length) {
      const rest = this.buffer.subarray(this.start, this.end);
      this.buffer = Buffer.alloc(Math.max(2 * (rest.length + chunk.length), 64 * 1024));
      this.end = rest.copy(this.buffer);
      this.start = 0;
    }
    this.end += chunk.copy(this.buffer, this.end);
  }
}
