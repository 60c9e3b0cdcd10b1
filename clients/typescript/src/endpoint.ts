/** The daemon's endpoint (docs/PROTOCOL.md, section 2). */
import { existsSync, lstatSync, readFileSync, realpathSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";

/** Says that no daemon listens at a path, and what to do. */
export const noDaemon = (path: string) => `no daemon listens at ${path}: start it with \`agent-relay up\``;

/** Finds the daemon's endpoint. Throws if there is none, or if another user may run it. */
export function findEndpoint(endpoint?: string): string {
  const { env, platform, getuid } = process;
  const state =
    platform === "darwin"
      ? join(homedir(), "Library/Application Support")
      : env.XDG_STATE_HOME || join(homedir(), ".local/state");
  const file = join(env.AGENT_RELAY_HOME || join(state, "agent-relay"), "endpoint");
  const named =
    endpoint || env.AGENT_RELAY_ENDPOINT || (existsSync(file) && readFileSync(file, "utf8").trim());
  if (named) return checkOwner(named);
  // The system's defaults are those of the default home only.
  if (env.AGENT_RELAY_HOME) throw new Error(noDaemon(env.AGENT_RELAY_HOME));
  const shared = "/tmp/agent-relay.sock";
  const own = `/tmp/agent-relay-${getuid?.()}.sock`;
  const isMine = existsSync(shared) && lstatSync(shared).uid === getuid?.();
  return checkOwner(existsSync(own) && !isMine ? own : shared);
}

/** Returns the real path of a socket that only this user and root can create or replace. */
function checkOwner(socket: string): string {
  const path = realPath(socket);
  for (let at = path; ; at = dirname(at)) {
    const { uid, mode } = lstatSync(at);
    if (uid !== 0 && uid !== process.getuid?.()) {
      throw new Error(`${at} belongs to another user: name an endpoint of yours, or start your own daemon`);
    }
    // In a sticky directory such as /tmp, a file can only be replaced by its owner.
    const isSticky = at !== path && (mode & 0o1000) !== 0;
    if ((mode & 0o022) !== 0 && !isSticky) {
      throw new Error(`other users may write ${at}: run \`chmod go-w ${at}\``);
    }
    if (at === dirname(at)) return path;
  }
}

function realPath(socket: string): string {
  try {
    return realpathSync(socket);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ENOENT") throw cause;
    throw new Error(noDaemon(socket), { cause });
  }
}
