"""
The toolkits API of the A2E Python SDK against our host: through its public calls, and with its own models for what its API loses.

Usage: python-toolkits.py '["stdio", "program", "arg", ...]'

Prints one JSON object: what each call returned.
"""
import json

from a2e.caps.toolkits import ToolkitConfigureRequest
from a2e.caps.toolkits.client import ToolkitAPI
from a2e.caps.tools.client import ToolAPI
from sdk_agent import attempt, client_of, results

client = client_of("python-toolkits", ["toolkits", "tools"])


def configure(name, config):
    return client.rpc(ToolkitConfigureRequest(toolkit_name=name, config=config), timeout=10)


client.connect()
toolkits = ToolkitAPI(client)
tools = ToolAPI(client)
attempt("list", lambda: toolkits.list())
attempt("by kind", lambda: toolkits.list(filter_kind="data"))
attempt("by tag", lambda: toolkits.list(filter_tags=["fs"]))
attempt("get", lambda: toolkits.get("sqlite"))
attempt("get nothing", lambda: toolkits.get("nothing"))
# Its arguments are lost on the way, and it reads a field that the reply does not have.
attempt("its configure", lambda: toolkits.configure("sqlite", {"max_rows": 3}, timeout=10))
attempt("wrong", lambda: configure("sqlite", {"max_rows": 0}))
attempt("unknown", lambda: configure("nothing", {}))
attempt("right", lambda: configure("sqlite", {"database": "a.db", "max_rows": 2}))
attempt("ensure", lambda: toolkits.ensure("sqlite", timeout=10))
attempt("tools", lambda: tools.list())
print(json.dumps(results), flush=True)
client.disconnect()
