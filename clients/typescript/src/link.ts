/** A connection to the daemon, as frames. */
import { type Socket, connect } from "node:net";
import { noDaemon } from "./endpoint.js";
import type { Sink } from "./outbox.js";
import { FrameReader } from "./wire.js";

/** What happens on a connection. After `lost` nothing does. */
export interface LinkEvents {
  opened(): void;
  /** The JSON of a frame. An error that is thrown ends the connection. */
  frame(json: string): void;
  /** What was written is out, after it was too much. */
  drained(): void;
  /** Neither side has sent anything for the time of `watch`. */
  silent(): void;
  lost(reason: string, cause?: Error): void;
}

const UNWRITTEN_BYTES_MAX = 32 * 1024 * 1024;

export class Link implements Sink {
  private readonly reader = new FrameReader();
  private readonly socket: Socket;
  private isOver = false;

  constructor(path: string, private readonly events: LinkEvents) {
    let cause: (Error & { code?: string }) | undefined;
    this.socket = connect(path);
    this.socket.on("connect", () => this.isOver || events.opened());
    this.socket.on("drain", () => this.isOver || events.drained());
    this.socket.on("timeout", () => this.isOver || events.silent());
    this.socket.on("data", (chunk) => this.read(chunk));
    this.socket.on("error", (error) => (cause = error));
    this.socket.on("close", () => {
      const isNobody = cause?.code === "ECONNREFUSED" || cause?.code === "ENOENT";
      this.lose(isNobody ? noDaemon(path) : (cause?.message ?? "the daemon closed the connection"), cause);
    });
  }

  get unwrittenBytes(): number {
    return this.socket.writableLength;
  }

  get isPaused(): boolean {
    return this.socket.isPaused();
  }

  write(frame: Buffer): void {
    this.socket.write(frame);
    if (this.unwrittenBytes > UNWRITTEN_BYTES_MAX) this.lose("the daemon does not read");
  }

  /** Sets the length of the longest frame that the daemon may send. */
  limit(frameBytes: number): void {
    this.reader.bytesMax = frameBytes;
  }

  /** Reads on, or no further. `silent` is called after `silentMs`, unless that is 0. */
  watch(isReading: boolean, silentMs: number): void {
    if (isReading) this.socket.resume();
    else this.socket.pause();
    this.socket.setTimeout(silentMs);
  }

  /** Ends the connection, without an event. */
  destroy(): void {
    this.isOver = true;
    this.socket.destroy();
  }

  /** Waits until the daemon has closed the connection, for at most `ms`, and reads nothing more. */
  async closed(ms: number): Promise<void> {
    this.isOver = true;
    if (!this.socket.closed) {
      await new Promise<void>((resolve) => {
        this.socket.once("close", () => resolve()).setTimeout(ms, resolve).resume();
      });
    }
    this.socket.destroy();
  }

  private read(chunk: Buffer): void {
    try {
      for (const json of this.isOver ? [] : this.reader.read(chunk)) {
        this.events.frame(json);
        if (this.isOver) return;
      }
    } catch (error) {
      this.lose(`the daemon broke the protocol: ${(error as Error).message}`, error as Error);
    }
  }

  private lose(reason: string, cause?: Error): void {
    if (this.isOver) return;
    this.destroy();
    this.events.lost(reason, cause);
  }
}
