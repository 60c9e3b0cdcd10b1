// Reports opencode's events to the wrapper of its agent, and hands over what the wrapper answers.
// The wrapper writes this file for one run, behind a constant COMMANDS: the words of each event's
// hook. Whatever goes wrong here, opencode goes on as if this file were not there.
import { execFile } from "node:child_process"
import { readFileSync, writeFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

/** The time that a hook has, and for which opencode waits for one. */
const TIME_MS = 500

/** The longest output of a hook, in bytes. */
const OUTPUT_BYTES_MAX = 4 << 20

/** The most reports that wait for their turn. */
const PENDING_MAX = 64

/** The most sessions that are remembered. */
const SESSIONS_MAX = 1024

/** The file with the process that runs this plugin. */
const OWNER = fileURLToPath(new URL("plugin.owner", import.meta.url))

/** The most hooks that wait after one turn, if each one before was killed. */
const WAITS_MAX = 8

/**
 * Resolves to a hook's output, to "" if it fails, or to nothing if it was killed, as after
 * `timeout` (0: no limit).
 */
const run = (event, input, timeout) =>
  new Promise((resolve) => {
    const [program, ...words] = COMMANDS[event]
    const options = { timeout, maxBuffer: OUTPUT_BYTES_MAX, killSignal: "SIGKILL", windowsHide: true }
    const hook = execFile(program, words, options, (error, output) => {
      resolve(error ? (error.signal ? undefined : "") : output)
    })
    hook.stdin.on("error", () => {})
    hook.stdin.end(JSON.stringify(input))
  }).catch(() => "")

/** Resolves to the result of `work`, or to nothing after the time that a hook has. */
const inTime = (work) => {
  let timer
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, TIME_MS)
  })
  return Promise.race([work, late])
    .catch(() => undefined)
    .finally(() => clearTimeout(timer))
}

const isRunning = (pid) => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/**
 * Whether this process is the agent's: an opencode that its commands start inherits the settings.
 */
const isAgent = () => {
  const pid = `${process.pid}`
  try {
    writeFileSync(OWNER, pid, { flag: "wx", mode: 0o600 })
    return true
  } catch {
    const owner = readFileSync(OWNER, "utf8")
    if (owner !== pid && isRunning(Number(owner))) return false
    writeFileSync(OWNER, pid)
    return true
  }
}

export const AgentRelay = async ({ client, directory }) => {
  try {
    return isAgent() ? hooks(client, directory) : {}
  } catch {
    return {}
  }
}

function hooks(client, directory) {
  /** Of each known session, whether it is no subagent's. */
  const isOwn = new Map()
  /** The sessions in which a turn goes on. */
  const busy = new Set()
  /** The session of the last prompt, with the agent and the model that it was for. */
  let last
  let waits = false
  let pending = 0
  let queue = Promise.resolve()
  /** Answers to reports of tools that came after their tools' results, for the next result. */
  let late = []

  const note = (session) => {
    if (isOwn.size >= SESSIONS_MAX) isOwn.clear()
    isOwn.set(session.id, !session.parentID)
  }

  const isAgents = async (id) => {
    if (!isOwn.has(id)) {
      const found = await inTime(client.session.get({ path: { id } }))
      if (found?.data) note(found.data)
    }
    return isOwn.get(id) ?? false
  }

  /** Reports an event of the agent's session, after those before it. Resolves to the answer. */
  const report = (session, event, input, before = () => true) => {
    if (pending >= PENDING_MAX) return Promise.resolve("")
    pending += 1
    const work = async () => {
      const isReported = (await isAgents(session)) && before()
      return isReported ? run(event, { session_id: session, ...input }, TIME_MS) : ""
    }
    const answer = queue.then(work).catch(() => "")
    queue = answer.then(() => {
      pending -= 1
    })
    return answer
  }

  /** Waits for a message that the wrapper wants to begin a turn with, and begins it. */
  const wait = async () => {
    if (waits || !last) return
    waits = true
    let text
    for (let n = 0; n < WAITS_MAX && text === undefined; n += 1) text = await run("wait", {}, 0)
    waits = false
    if (!text || !last) return
    const { id, agent, model, variant } = last
    const parts = [{ type: "text", text }]
    await client.session.promptAsync({ path: { id }, body: { agent, model, variant, parts } })
  }

  const began = (message) => () => {
    const { providerID, modelID, variant } = message.model
    last = { id: message.sessionID, agent: message.agent, model: { providerID, modelID }, variant }
    return busy.add(message.sessionID)
  }

  /** Reports the end of a session's turn, unless a turn goes on in another session. */
  const end = (id, isDeleted = false) => {
    const isOver = () => {
      if (isDeleted && last?.id === id) last = undefined
      const isLast = busy.delete(id) && busy.size === 0
      // The message of a late notice is typed after the turn.
      if (isLast) late = []
      return isLast
    }
    report(id, "session.idle", {}, () => isOver() && (wait().catch(() => {}), true))
  }

  const handlers = {
    "session.created": ({ info }) => note(info),
    "session.updated": ({ info }) => note(info),
    "session.deleted": ({ info }) => {
      note(info)
      // A turn that still goes on may end without another event.
      end(info.id, true)
    },
    "session.idle": ({ sessionID }) => end(sessionID),
    "permission.asked": ({ sessionID }) => report(sessionID, "permission.asked", {}),
    "permission.replied": ({ sessionID, reply }) => {
      if (reply !== "reject") report(sessionID, "permission.replied", {})
    },
    "question.asked": ({ sessionID }) => report(sessionID, "question.asked", {}),
    "question.replied": ({ sessionID }) => report(sessionID, "question.replied", {}),
  }

  run("start", {}, TIME_MS)
  return {
    event: async ({ event }) => {
      try {
        handlers[event.type]?.(event.properties)
      } catch {}
    },
    "chat.message": async (_, output) => {
      try {
        const { message, parts } = output
        const isTyped = (part) => part.type === "text" && !part.synthetic
        const prompt = parts.filter(isTyped).map((part) => part.text)
        report(message.sessionID, "chat.message", { prompt }, began(message))
      } catch {}
    },
    "tool.execute.after": async (input, output) => {
      try {
        const { output: shown, content } = output
        const { command, filePath, patchText } = input.args ?? {}
        const tool = { tool_name: `${input.tool}`, tool_input: { command: `${command ?? ""}`, filePath, patchText } }
        const result = { ...tool, cwd: directory, tool_response: [shown, content] }
        const answer = report(input.sessionID, "tool.execute.after", result)
        const text = await inTime(answer)
        if (text === undefined) answer.then((text) => text && late.push(text))
        // A subagent's result takes no notice of the agent's.
        const before = isOwn.get(input.sessionID) ? late.splice(0) : []
        const told = [...before, text].filter(Boolean).join("\n\n")
        if (!told) return
        if (typeof output.output === "string") output.output += `\n\n${told}`
        else if (Array.isArray(output.content)) output.content.push({ type: "text", text: told })
      } catch {}
    },
  }
}
