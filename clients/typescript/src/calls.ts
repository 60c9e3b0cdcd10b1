/** Calls that wait for an answer of the daemon or of an agent. */
import { TimeoutError } from "./errors.js";
import { after } from "./timers.js";

type Call = {
  resolve(value: never): void;
  reject(error: Error): void;
  timer: NodeJS.Timeout | undefined;
};

export class Calls {
  private readonly calls = new Map<string, Call>();

  has(id: string): boolean {
    return this.calls.has(id);
  }

  get isEmpty(): boolean {
    return this.calls.size === 0;
  }

  /** Waits for the answer with this id, for at most `ms`. After that, `hint` says what to do. */
  wait<T>(id: string, what = "", ms?: number, hint = ""): Promise<T> {
    return new Promise((resolve, reject) => {
      const expire = () => {
        this.settle(id, new TimeoutError("TIMED_OUT", `no ${what} within ${ms} ms: ${hint}`));
      };
      this.calls.set(id, { resolve, reject, timer: after(ms, expire) });
    });
  }

  /** Resolves or rejects a call. Returns false if there is none with this id. */
  settle(id: string, result: unknown): boolean {
    const call = this.calls.get(id);
    if (!call) return false;
    this.calls.delete(id);
    clearTimeout(call.timer);
    if (result instanceof Error) call.reject(result);
    else call.resolve(result as never);
    return true;
  }

  rejectAll(error: Error): void {
    for (const id of this.calls.keys()) this.settle(id, error);
  }

  /** Rejects the calls that have no time limit. */
  rejectEndless(error: Error): void {
    for (const [id, { timer }] of this.calls) {
      if (!timer) this.settle(id, error);
    }
  }
}
