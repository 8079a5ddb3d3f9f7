"""
The toolkits API of the A2E Python SDK against our host: through its public calls, and with its own models for what its API loses.

Usage: python-toolkits.py '["stdio", "program", "arg", ...]'

Prints one JSON object: what each call returned.
"""
import json
import logging
import sys

from a2e.caps.toolkits import ToolkitConfigureRequest
from a2e.caps.toolkits.client import ToolkitAPI
from a2e.caps.tools.client import ToolAPI
from a2e.core.client.client import A2EClient
from a2e.core.transports.subprocess import SubprocessTransport

logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
logger = logging.getLogger("python-toolkits")

target = json.loads(sys.argv[1])
client = A2EClient(
    transport=SubprocessTransport(command=target[1:], logger=logger),
    logger=logger, agent_id="python-agent", auth_token="", agent_caps=["toolkits", "tools"],
)
results = {}


def plain(value):
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return [plain(each) for each in value] if isinstance(value, list) else value


def attempt(name, action):
    try:
        results[name] = plain(action())
    except Exception as error:  # every outcome is a result here
        results[name] = {"failed": type(error).__name__, "code": getattr(error, "code", ""), "message": str(error)}
    return results[name]


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
