/** Incoming messages: duplicates, and positions in the streams (docs/PROTOCOL.md, section 12). */

/** The length of each dedup window, in ids, and the most deliveries that may be unacknowledged. */
export const WINDOW = 4096;
const STREAMS_MAX = 1024;

type Position = { peer: string; topic: string; last_seq: number };

export class Inbox {
  private readonly unacknowledged = new Set<string>();
  private readonly acknowledged = new Set<string>();
  private readonly atMostOnce = new Set<string>();
  private readonly outcomes = new Set<string>();
  /** The last number of each stream, in the order of the streams' last deliveries. */
  readonly positions = new Map<string, Position>();

  /** Tells a new delivery from duplicates; `acknowledged` is one whose ACK did not arrive. */
  judge(id: string, requiresAck: boolean): "new" | "duplicate" | "acknowledged" | "full" {
    // A delivery that needs no acknowledgement now may be the replay of one that was acknowledged.
    if (this.acknowledged.has(id)) return requiresAck ? "acknowledged" : "duplicate";
    if (this.unacknowledged.has(id)) return "duplicate";
    if (!requiresAck) return remember(this.atMostOnce, id) ? "new" : "duplicate";
    if (this.unacknowledged.size >= WINDOW) return "full";
    this.unacknowledged.add(id);
    return "new";
  }

  /** Notes the position of a delivery, unless it is above 2^53 and so not exact. */
  note(peer: string, topic: string, seq: number): void {
    if (peer === "@relay" || !Number.isSafeInteger(seq)) return;
    const stream = `${peer} ${topic}`;
    const last_seq = Math.max(seq, this.positions.get(stream)?.last_seq ?? 0);
    this.positions.delete(stream);
    this.positions.set(stream, { peer, topic, last_seq });
    trim(this.positions, STREAMS_MAX);
  }

  /** Returns the streams for a RESUME: the latest that fit into `bytes`. */
  streams(bytes: number): Position[] {
    return [...this.positions.values()].reverse().filter((stream) => {
      bytes -= Buffer.byteLength(JSON.stringify(stream)) + 1;
      return bytes > 0;
    });
  }

  /** Whether an answer is new. After a crash, the daemon may repeat answers. */
  isNewOutcome(id: string, about: string): boolean {
    return remember(this.outcomes, `${id} ${about}`);
  }

  /** Marks a delivery as acknowledged. Returns false if it was not unacknowledged. */
  acknowledge(id: string): boolean {
    return this.unacknowledged.delete(id) && remember(this.acknowledged, id);
  }

  /** Forgets a delivery that is returned. Returns false if it was not unacknowledged. */
  forget(id: string): boolean {
    return this.unacknowledged.delete(id);
  }
}

/** Adds an id to a window. Returns false if the window has it already. */
function remember(window: Set<string>, id: string): boolean {
  if (window.has(id)) return false;
  window.add(id);
  trim(window, WINDOW);
  return true;
}

/** Removes the oldest entries beyond a limit. */
export function trim(entries: Set<string> | Map<string, unknown>, max: number): void {
  for (const oldest of entries.keys()) {
    if (entries.size <= max) return;
    entries.delete(oldest);
  }
}
