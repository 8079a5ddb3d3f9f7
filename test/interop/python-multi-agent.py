"""
The multi_agent API of the A2E Python SDK against our host: every public call of its client.

Usage: python-multi-agent.py '["stdio", "program", "arg", ...]'

Prints one JSON object: what each call returned.
"""
import json

from a2e.caps.multi_agent.client import MultiAgentAPI
from sdk_agent import attempt, client_of, results

client = client_of("python-multi-agent", ["multi_agent"])
client.connect()
agents = MultiAgentAPI(client)

spawned = attempt("spawn", lambda: agents.spawn("scout", role="research", model="small-1", max_steps=5, metadata={"team": "a"}))
one = spawned["subagent_id"]
attempt("await without a task", lambda: agents.await_(one))
attempt("delegate", lambda: agents.delegate(one, "survey", "List three options", ["three options"]))
attempt("await", lambda: agents.await_(one))
attempt("delegate again", lambda: agents.delegate(one, "broken", "fail"))
attempt("await the failure", lambda: agents.await_(one))
attempt("await it again", lambda: agents.await_(one))
two = attempt("spawn another", lambda: agents.spawn("second"))["subagent_id"]
attempt("list", lambda: agents.list())
attempt("terminate", lambda: agents.terminate(one))
attempt("terminate again", lambda: agents.terminate(one))
attempt("delegate to an ended one", lambda: agents.delegate(one, "late", "late"))
attempt("list afterwards", lambda: agents.list())
attempt("unknown", lambda: agents.await_("sub_00000000"))
print(json.dumps(results), flush=True)
client.disconnect()
