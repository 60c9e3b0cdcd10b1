"""The official Python client of MCP. Starts the server that its arguments name, in each mode."""
import asyncio, sys

from mcp import Client, StdioServerParameters

COMMAND, *ARGUMENTS = sys.argv[1:]


async def use(mode):
    progress = []

    async def on_progress(done, total, message):
        progress.append(done)

    async with Client(StdioServerParameters(command=COMMAND, args=ARGUMENTS), mode=mode) as client:
        tools = (await client.list_tools()).tools
        assert len(tools) == 7, tools
        sent = await client.call_tool("send", {"to": "Bob", "body": f"from Python {mode}"})
        assert not sent.is_error, sent
        asked = await client.call_tool("ask", {"to": "Bob", "body": "?"}, progress_callback=on_progress)
        assert "answers" in asked.content[0].text, asked
        assert progress, "no progress"
        wrong = await client.call_tool("send", {"to": "Bob"})
        assert wrong.is_error and "there is no `body`" in wrong.content[0].text, wrong
        print(mode, client.session.protocol_version)


for mode in ["legacy", "auto", "2026-07-28"]:
    asyncio.run(use(mode))
