/** The errors of this library. */

/** A failure, with one of the daemon's codes or one of this library's, which the README lists. */
export class RelayError extends Error {
  static {
    this.prototype.name = "RelayError";
  }

  constructor(readonly code: string, message: string, options?: ErrorOptions) {
    super(`${message} (${code})`, options);
  }
}

/** The daemon, the recipient or this client refused a message, a subscription or a request. */
export class RefusedError extends RelayError {
  static {
    this.prototype.name = "RefusedError";
  }
}

/** No answer came in time. */
export class TimeoutError extends RelayError {
  static {
    this.prototype.name = "TimeoutError";
  }
}

/** The client has ended: closed, refused by the daemon, or without one. No later call succeeds. */
export class EndedError extends RelayError {
  static {
    this.prototype.name = "EndedError";
  }
}
