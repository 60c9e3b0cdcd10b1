/** Frames, envelopes, and the daemon's endpoint (docs/PROTOCOL.md, sections 2 to 4). */
import { existsSync, lstatSync, readFileSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
/** A JSON object. */
export type Members = Record<string, unknown>;
/** An error with one of the daemon's codes, or with a code of this library, which the README lists. */
export class RelayError extends Error {
  constructor(readonly code: string, message: string) { super(`${message} (${code})`) }
}
export const text = (value: unknown) => (typeof value === "string" ? value : undefined);
export const number = (value: unknown) => (typeof value === "number" ? value : undefined);
/** Returns the value if it is an object, or an empty object. */
export const members = (value: unknown) =>
  (typeof value === "object" && value !== null && !Array.isArray(value) ? value : {}) as Members;
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
  private start = 0; private end = 0;
  constructor(public bytesMax = 1024 * 1024) {}
  /** Yields the JSON of each complete frame. Throws if a frame is empty, too long, or not UTF-8. */
  *read(chunk: Buffer): Generator<string> {
    if (this.end + chunk.length > this.buffer.length) {
      const rest = this.buffer.subarray(this.start, this.end);
      this.buffer = Buffer.alloc(Math.max(2 * (rest.length + chunk.length), 64 * 1024));
      [this.start, this.end] = [0, rest.copy(this.buffer)];
    }
    this.end += chunk.copy(this.buffer, this.end);
    while (this.end - this.start >= 4) {
      const [first, bytes] = [this.start + 4, this.buffer.readUInt32BE(this.start)];
      if (bytes === 0 || bytes > this.bytesMax) throw new Error(`a frame has ${bytes} bytes`);
      if (this.end < first + bytes) return;
      this.start = first + bytes;
      yield this.decoder.decode(this.buffer.subarray(first, this.start));
    }
    if (this.start === this.end) [this.buffer, this.start, this.end] = [Buffer.alloc(0), 0, 0];
  }
}
/** Finds the daemon's endpoint. Throws if there is none, or if another user may run it. */
export function findEndpoint(endpoint?: string): string {
  const { env, platform, getuid } = process;
  const state = platform === "win32" ? env.LOCALAPPDATA : env.XDG_STATE_HOME || join(homedir(), ".local/state");
  const parent = platform === "darwin" ? join(homedir(), "Library/Application Support") : (state ?? "");
  const file = join(env.AGENT_RELAY_HOME || join(parent, "agent-relay"), "endpoint");
  const named = endpoint || env.AGENT_RELAY_ENDPOINT || (existsSync(file) && readFileSync(file, "utf8").trim());
  // The system's defaults are those of the default home only.
  if (env.AGENT_RELAY_HOME && !named) throw new Error(`no daemon has listened yet for ${env.AGENT_RELAY_HOME}`);
  if (platform === "win32") return named || "\\\\.\\pipe\\agent-relay"; // Node cannot tell who owns a pipe.
  const [shared, own] = ["/tmp/agent-relay.sock", `/tmp/agent-relay-${getuid?.()}.sock`];
  const isForeign = existsSync(own) && !(existsSync(shared) && lstatSync(shared).uid === getuid?.());
  return checkOwner(named || (isForeign ? own : shared));
}
/** Checks that only this user and root can create or replace a socket, and returns its real path. */
function checkOwner(socket: string): string {
  const path = realpathSync(socket);
  for (let at = path; ; at = dirname(at)) {
    const { uid, mode } = lstatSync(at);
    if (uid !== 0 && uid !== process.getuid?.()) throw new Error(`${at} belongs to another user`);
    // In a sticky directory such as /tmp, a file can only be replaced by its owner.
    const isSticky = at !== path && (mode & 0o1000) !== 0;
    if ((mode & 0o022) !== 0 && !isSticky) throw new Error(`other users may write ${at}: use chmod go-w`);
    if (at === dirname(at)) return path;
  }
}
