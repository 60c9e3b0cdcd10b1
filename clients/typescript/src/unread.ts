/** Messages that the program has not received yet, and the calls of `receive` that wait for one. */
import type { EndedError } from "./errors.js";
import type { Message } from "./message.js";
import { after } from "./timers.js";

export interface ReceiveOptions {
  /** Ends the wait: the call is rejected with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** The milliseconds before the call returns undefined. Default: none. */
  timeoutMs?: number | undefined;
}

const COUNT_MAX = 1024;
const BYTES_MAX = 8 * 1024 * 1024;

type Settle = { resolve(message: Message | undefined): void; reject(reason: unknown): void };

export class Unread {
  private readonly messages: Message[] = [];
  private bytes = 0;
  /** The calls that wait, the oldest first. There are none while there are messages. */
  private readonly readers = new Set<Settle>();
  private ended: EndedError | undefined;

  /** `taken` is called after a message was taken out. */
  constructor(private readonly taken: () => void) {}

  /** Gives a message to the oldest call that waits, or keeps it for the next one. */
  push(message: Message): void {
    const [reader] = this.readers;
    if (reader) return reader.resolve(message);
    this.messages.push(message);
    this.bytes += message.raw.length;
  }

  /** Whether too much is unread: `times` as much as usual. */
  isFull(times: number): boolean {
    return this.messages.length >= times * COUNT_MAX || this.bytes >= times * BYTES_MAX;
  }

  /** A call that ends without a message leaves it to the next call. */
  receive({ signal, timeoutMs }: ReceiveOptions): Promise<Message | undefined> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    const message = this.messages.shift();
    if (message) {
      this.bytes -= message.raw.length;
      this.taken();
      return Promise.resolve(message);
    }
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.readers.delete(reader);
        signal?.removeEventListener("abort", abort);
        clearTimeout(timer);
      };
      const reader: Settle = {
        resolve: (value) => (leave(), resolve(value)),
        reject: (reason) => (leave(), reject(reason)),
      };
      const abort = () => reader.reject(signal?.reason);
      const timer = after(timeoutMs, () => reader.resolve(undefined));
      signal?.addEventListener("abort", abort);
      this.readers.add(reader);
      if (this.ended) this.end(this.ended);
    });
  }

  /** Ends the calls that wait, and later ones once nothing is unread. */
  end(error: EndedError): void {
    this.ended = error;
    for (const reader of this.readers) {
      if (error.code === "CLOSED") reader.resolve(undefined);
      else reader.reject(error);
    }
  }
}
