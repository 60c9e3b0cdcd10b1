/** Waits. */

const TIMER_MS_MAX = 2 ** 31 - 1; // Node fires longer timers at once.
export const WAIT_MS_MAX = 30_000;

/** Calls back after `ms`, or never if there is no limit or if it is beyond 24 days. */
export function after(ms: number | undefined, callback: () => void): NodeJS.Timeout | undefined {
  return ms === undefined || ms > TIMER_MS_MAX ? undefined : setTimeout(callback, ms);
}

/** Returns the wait that begins at `first` ms and has doubled `times` times, give or take 15 %. */
export function backOffMs(first: number, times: number): number {
  return Math.min(first * 2 ** Math.min(times, 20), WAIT_MS_MAX) * (0.85 + 0.3 * Math.random());
}
