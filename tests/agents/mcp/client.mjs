// The official TypeScript clients of MCP, of the current line and of the one before. Starts the
// server that the arguments name, in each mode.
import assert from "node:assert";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, command, ...args] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/`));
const current = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");
const before = require("@modelcontextprotocol/sdk/client/index.js");
const transport = require("@modelcontextprotocol/sdk/client/stdio.js");

async function use(name, client, Transport) {
  await client.connect(new Transport({ command, args, env: process.env }));
  const { tools } = await client.listTools();
  assert.equal(tools.length, 7);
  const call = (name, values, options) =>
    client.callTool({ name, arguments: values }, ...options);
  const options = (more) => (Transport === StdioClientTransport ? [more] : [undefined, more]);
  const sent = await call("send", { to: "Bob", body: `from ${name}` }, options({}));
  assert(!sent.isError, JSON.stringify(sent));
  let progress = 0;
  const onprogress = () => (progress += 1);
  const asked = await call("ask", { to: "Bob", body: "?" }, options({ onprogress }));
  assert.match(asked.content[0].text, /answers/);
  assert(progress > 0, "no progress");
  const wrong = await call("send", { to: "Bob" }, options({}));
  assert(wrong.isError && /there is no `body`/.test(wrong.content[0].text));
  await client.close();
  console.log(name);
}

const info = { name: "test", version: "1" };
for (const mode of ["legacy", "auto"]) {
  const client = new current.Client(info, { versionNegotiation: { mode } });
  await use(mode, client, StdioClientTransport);
}
await use("before", new before.Client(info), transport.StdioClientTransport);
