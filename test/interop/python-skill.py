"""
The skill API of the A2E Python SDK against our host: through its public calls, and with its own models for what its API loses.

Usage: python-skill.py '["stdio", "program", "arg", ...]'

Prints one JSON object: what each call returned.
"""
import json
import uuid

from a2e.caps.skills.client import SkillAPI
from a2e.caps.skills.protocol import SkillDiscoverRequest
from sdk_agent import attempt, client_of, plain, results

client = client_of("python-skill", ["skill", "tools"])


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
