"""
A host built on the A2E Python SDK, with a tools plugin written the way the SDK's cookbook shows.

Usage: python-host.py http [PLUGINS]    serves HTTP + SSE on a free port of 127.0.0.1 and prints the address
       python-host.py stdio [PLUGINS]   speaks on stdin and stdout, for agents that start it as a child

PLUGINS is the number of tools plugins to load, default 1.
"""
import asyncio
import base64
import logging
import os
import socket
import sys
import threading
import time

from a2e.caps.tools.plugin import ToolPlugin
from a2e.caps.tools.protocol import ToolDefinition, ToolParameter, ToolResult
from a2e.core.server.executor import A2EServerRuntimeExecutor
from a2e.core.server.server import A2EServer
from a2e.core.transports.direct import DirectTransport
from a2e.schema import A2EHostConfig

logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
logger = logging.getLogger("python-host")


class InteropTools(ToolPlugin):
    """One tool for each thing an agent can meet."""

    name = "interop_tools"

    def _list_tools(self):
        name = ToolParameter(name="name", type="string", description="Whom to greet", required=True)
        times = ToolParameter(name="times", type="integer", description="How often")
        options = ToolParameter(name="options", type="object", description="More", properties={"times": times})
        return [
            ToolDefinition(name="greet", description="Greets somebody", input_parameters=[name, options], idempotent=True, tags=["text", "social"]),
            ToolDefinition(name="steps", description="Sends an event of each kind", tags=["text"]),
            ToolDefinition(name="breaks", description="Fails after its first event"),
            ToolDefinition(name="refuses", description="Returns a result that says it failed"),
            ToolDefinition(name="nap", description="Waits"),
            ToolDefinition(name="echo", description="Gives back what it got"),
            ToolDefinition(name="exit", description="Ends with a code"),
            ToolDefinition(name="dies", description="Ends its host without an answer"),
            ToolDefinition(name="rare", description="Found by search only", defer_loading=True),
        ]

    def _execute_tool(self, tool_name, arguments):
        if tool_name == "greet":
            times = (arguments.get("options") or {}).get("times", 1)
            return {"text": f"Hello, {arguments['name']}" * times}
        if tool_name == "steps":
            self.emit("status", {"message": "begun"})
            self.emit("progress", {"pct": 50, "message": "half \u2028 way"})
            self.emit("log", {"level": "info", "message": "a line"})
            chunk = base64.b64encode(b"hello").decode()
            self.emit("artifact", {"name": "out.txt", "mime": "text/plain", "chunk": chunk, "final": True})
            return ToolResult(success=True, tool_name=tool_name, data={"done": True}, summary="four steps", duration_ms=1)
        if tool_name == "breaks":
            self.emit("status", {"message": "before"})
            raise RuntimeError("no luck")
        if tool_name == "refuses":
            return ToolResult(success=False, tool_name=tool_name, error="not today", error_code="tool_denied", duration_ms=1)
        if tool_name == "nap":
            time.sleep(arguments["ms"] / 1000)
            return {"ms": arguments["ms"]}
        if tool_name == "echo":
            return arguments.get("value")
        if tool_name == "dies":
            os._exit(7)
        if tool_name == "exit":
            return {"exit_code": 3, "stdout": ""}
        raise ValueError(f"Unknown tool: {tool_name}")


def config_of(plugins):
    return A2EHostConfig(
        server={"host": "127.0.0.1", "port": 0},
        transport={"type": "http", "config": {"base_url": "http://127.0.0.1"}},
        plugins=[
            {"name": f"interop-{at}", "type": "tools", "cls": "__main__.InteropTools", "metadata": {"priority": at}}
            for at in range(plugins)
        ],
    )


def serve_http(config):
    import uvicorn

    app = A2EServer(config=config, logger=logger).start()
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"listening http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


class WholeLines:
    """A stdout that writes line by line: the SDK prints a debug line per answer, from as many threads as are at work."""

    def __init__(self, out):
        self._out = out
        self._lock = threading.Lock()
        self._begun = threading.local()

    def write(self, text):
        *lines, rest = (getattr(self._begun, "text", "") + text).split("\n")
        self._begun.text = rest
        with self._lock:
            for line in lines:
                self._out.write(line + "\n")
            self._out.flush()

    def flush(self):
        pass


def serve_stdio(config):
    """As the cookbook's subprocess host, with the answers also written to stdout: there only a debug line shows them."""
    sys.stdout = WholeLines(sys.stdout)
    transport = DirectTransport(logger=logger)
    transport.set_out_handler(print)
    runtime = A2EServerRuntimeExecutor(config=config, transport=transport, logger=logger)
    runtime.start()
    print("A2E_SUBPROCESS_HOST_READY", flush=True)
    for line in sys.stdin:
        if line.strip():
            asyncio.run(transport.deliver(line.strip()))
    runtime.stop()


if __name__ == "__main__":
    settings = config_of(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    {"http": serve_http, "stdio": serve_stdio}[sys.argv[1]](settings)
