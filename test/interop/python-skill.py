"""
The skill API of the A2E Python SDK against our host: through its public calls, and with its own models for what its API loses.

Usage: python-skill.py '["stdio", "program", "arg", ...]'

Prints one JSON object: what each call returned.
"""
import json
import logging
import sys
import uuid

from a2e.caps.skills.client import SkillAPI
from a2e.caps.skills.protocol import SkillDiscoverRequest
from a2e.core.client.client import A2EClient
from a2e.core.transports.subprocess import SubprocessTransport

logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
logger = logging.getLogger("python-skill")

target = json.loads(sys.argv[1])
client = A2EClient(
    transport=SubprocessTransport(command=target[1:], logger=logger),
    logger=logger, agent_id="python-agent", auth_token="", agent_caps=["skill", "tools"],
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


def discover(**filters):
    return client.rpc(SkillDiscoverRequest(id=uuid.uuid4().hex, **filters), timeout=30).skills


client.connect()
skills = SkillAPI(client)
events = []
attempt("discover", lambda: discover())
attempt("by tag", lambda: discover(filter_tags=["text"]))
attempt("by category", lambda: discover(filter_categories=["nothing"]))
# It makes models of what are models already.
attempt("its discover", lambda: skills.discover())
attempt("call", lambda: skills.call("count", {"path": "poem.txt"}, on_event=lambda event: events.append(plain(event))))
attempt("text", lambda: skills.call("style", {}))
attempt("throws", lambda: skills.call("throws", {}))
attempt("wrong", lambda: skills.call("count", {"path": 1}))
attempt("unknown", lambda: skills.call("nothing", {}))
results["events"] = events
print(json.dumps(results, default=str), flush=True)
client.disconnect()
