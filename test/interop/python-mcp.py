"""
The mcp API of the A2E Python SDK against our host, through its public calls where they work, and by its own messages where they
cannot. Its agent is sampled by a server too.

Usage: python-mcp.py '["stdio", "program", "arg", ...]'

Prints one JSON object: what each call returned.
"""
import json
import sys

from a2e.caps.mcp.client import MCPAPI
from a2e.caps.mcp.protocol import (
    MCPPromptGetRequest, MCPPromptListRequest, MCPResourceListRequest, MCPResourceReadRequest, MCPResourceSubscribeRequest,
    MCPSamplingResponse, MCPServerListRequest, MCPServerRegisterRequest, MCPServerUnregisterRequest,
)
from a2e.caps.tools.client import ToolAPI
from sdk_agent import attempt, client_of, plain, results

command = json.loads(sys.argv[2])
client = client_of("python-mcp", ["mcp", "tools"])
client.connect()
mcp = MCPAPI(client)
tools = ToolAPI(client)
sampled = []


def answer(message):
    sampled.append(plain(message))
    fields = plain(message)
    client._send(MCPSamplingResponse(
        req_id=fields["id"], server_id=fields["server_id"], mcp_request_id=fields["mcp_request_id"],
        content={"type": "text", "text": "as Python says"}, model="small-1", stop_reason="endTurn",
    ))


# The SDK looks handlers up by `str(type)`, which is the name of an enumeration in newer Pythons.
for name in ("mcp/sample/req", "MessageType.MCP_SAMPLE_REQ"):
    client.register_push_handler(name, answer)
attempt("list", lambda: mcp.list_servers())
attempt("register", lambda: mcp.register_server("all", {"server_id": "all", "cmd": command}))
# What the SDK's helpers send without what they need, sent as the messages they stand for.
attempt("raw register", lambda: client.rpc(MCPServerRegisterRequest(config={"server_id": "raw", "name": "Raw", "cmd": command})))
attempt("raw list", lambda: client.rpc(MCPServerListRequest()).servers)
attempt("call", lambda: tools.call(tool_name="raw__echo", arguments={"message": "hello"}))
attempt("sampled call", lambda: tools.call(tool_name="raw__trigger-sampling-request", arguments={"prompt": "hi", "maxTokens": 7}))
results["sampled"] = sampled
attempt("resources", lambda: client.rpc(MCPResourceListRequest(server_id="raw")).resources)
attempt("read", lambda: client.rpc(MCPResourceReadRequest(uri="demo://resource/dynamic/text/7")))
attempt("unread", lambda: client.rpc(MCPResourceReadRequest(uri="nothing://here")))
attempt("subscribe", lambda: client.rpc(MCPResourceSubscribeRequest(uri="demo://resource/dynamic/text/7", server_id="raw")))
attempt("prompts", lambda: client.rpc(MCPPromptListRequest(server_id="raw")).prompts)
attempt("prompt", lambda: client.rpc(MCPPromptGetRequest(name="args-prompt", arguments={"city": "Lisbon"}, server_id="raw")))
attempt("refused", lambda: client.rpc(MCPServerRegisterRequest(config={"cmd": ["rm", "-rf", "x"]})))
attempt("unregister", lambda: client.rpc(MCPServerUnregisterRequest(server_id="raw")))
attempt("unknown", lambda: client.rpc(MCPServerUnregisterRequest(server_id="raw")))
print(json.dumps(results), flush=True)
client.disconnect()
