/** Incoming messages: duplicates, and the position in each stream (docs/PROTOCOL.md, section 12). */
/** The length of each dedup window, in ids, and the most deliveries that may be unacknowledged. */
export const WINDOW = 4096;
const STREAMS_MAX = 1024;
export class Inbox {
  private readonly unacknowledged = new Set<string>(); private readonly acknowledged = new Set<string>();
  private readonly atMostOnce = new Set<string>(); private readonly outcomes = new Set<string>();
  /** The last number of each stream, in the order of the streams' last deliveries. */
  readonly positions = new Map<string, { peer: string; topic: string; last_seq: number }>();
  /** Tells a new delivery from duplicates; `acknowledged` is one whose ACK did not arrive. */
  judge(id: string, requiresAck: boolean): "new" | "duplicate" | "acknowledged" | "full" {
    if (this.acknowledged.has(id)) return requiresAck ? "acknowledged" : "duplicate"; // Or a replay.
    if (this.unacknowledged.has(id)) return "duplicate";
    if (!requiresAck) return remember(this.atMostOnce, id) ? "new" : "duplicate";
    return this.unacknowledged.size < WINDOW && this.unacknowledged.add(id) ? "new" : "full";
  }
  /** Notes the position of a delivery that the program gets. Above 2^53 it is not exact, and not noted. */
  note(peer: string, topic: string, seq: number): void {
    if (peer === "@relay" || !Number.isSafeInteger(seq)) return;
    const stream = `${peer} ${topic}`;
    const last_seq = Math.max(seq, this.positions.get(stream)?.last_seq ?? 0);
    this.positions.delete(stream);
    trim(this.positions.set(stream, { peer, topic, last_seq }), STREAMS_MAX);
  }
  /** Returns the streams for a RESUME: the latest that fit into so many bytes. */
  streams = (bytes: number): object[] => [...this.positions.values()].reverse()
    .filter((stream) => (bytes -= Buffer.byteLength(JSON.stringify(stream)) + 1) > 0);
  /** Whether an answer is new. After a crash, the daemon may repeat answers. */
  isNewOutcome = (id: string, about: string) => remember(this.outcomes, `${id} ${about}`);
  /** Marks a delivery as acknowledged. Returns false if it was not unacknowledged. */
  acknowledge = (id: string) => this.unacknowledged.delete(id) && remember(this.acknowledged, id);
  /** Forgets a delivery that is returned. Returns false if it was not unacknowledged. */
  forget = (id: string) => this.unacknowledged.delete(id);
}
/** Adds an id to a window. Returns false if the window has it already. */
const remember = (window: Set<string>, id: string) => !window.has(id) && trim(window.add(id), WINDOW);
/** Removes the oldest entries beyond a limit. */
export function trim(entries: Set<string> | Map<string, unknown>, max: number): true {
  for (const oldest of entries.keys()) if (entries.size > max) entries.delete(oldest); else break;
  return true;
}
