// Runs the plugin of the file that the argument names, with hooks that take 350 ms, so that the
// second of two reports ends after its tool. Prints the tools' results.
import { readFileSync, writeFileSync } from "node:fs"

const hook = (script) => ["sh", "-c", script]
const COMMANDS = { start: hook(""), "tool.execute.after": hook("sleep 0.35; printf notice") }
const [, , plugin, copy] = process.argv
writeFileSync(copy, `const COMMANDS = ${JSON.stringify(COMMANDS)}\n${readFileSync(plugin, "utf8")}`)
const { AgentRelay } = await import(copy)
const get = async ({ path: { id } }) => ({ data: { id, parentID: id === "child" ? "own" : undefined } })
const hooks = await AgentRelay({ client: { session: { get } } })
const tool = async (sessionID) => {
  const result = { output: "done" }
  await hooks["tool.execute.after"]({ tool: "bash", sessionID, args: {} }, result)
  return result.output.split("\n\n").join(" ")
}
console.log((await Promise.all([tool("own"), tool("own")])).join(", "))
await new Promise((resolve) => setTimeout(resolve, 1000))
console.log(await tool("child"))
console.log(await tool("own"))
process.exit()
