"""
The planning API of the A2E Python SDK against our host, through its public calls only, and by raw message for what it has no call for.

Usage: python-planning.py '["stdio", "program", "arg", ...]'

Prints one JSON object: what each call returned.
"""
import json
import logging
import sys

from a2e.caps.base.protocol import A2EMessage
from a2e.caps.planning.client import PlanningAPI
from a2e.core.client.client import A2EClient
from a2e.core.transports.subprocess import SubprocessTransport

logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
logger = logging.getLogger("python-planning")

target = json.loads(sys.argv[1])
client = A2EClient(
    transport=SubprocessTransport(command=target[1:], logger=logger),
    logger=logger, agent_id="python-agent", auth_token="", agent_caps=["planning"],
)
results = {}


class ClaimRequest(A2EMessage):
    """An addition of ours, which the SDK has no model for."""

    type: str = "planning/task/claim/req"
    plan_id: str


class ClaimResponse(A2EMessage):
    type: str = "planning/task/claim/resp"
    req_id: str = ""
    task: dict | None = None
    fence: int = 0


def attempt(name, action):
    try:
        value = action()
        results[name] = value.model_dump(mode="json") if hasattr(value, "model_dump") else value
    except Exception as error:  # every outcome is a result here
        results[name] = {"failed": type(error).__name__, "code": getattr(error, "code", ""), "message": str(error)}
    return results[name]


client.connect()
planning = PlanningAPI(client)
# A reply whose type the client does not know ends no call of it.
client.update_msg_types({"planning/task/claim/resp": ClaimResponse})
plan = attempt("create", lambda: planning.plan_create("release", description="of the spring"))["plan_id"]
attempt("commas", lambda: planning.plan_create("commas", ["to, do", "do,ne"]))
first = attempt("add", lambda: planning.task_add(plan, "Write the docs", metadata={"n": 1}))["task_id"]
second = attempt("add after", lambda: planning.task_add(plan, "Publish", assignee="ana", deps=[first]))["task_id"]
attempt("add to no plan", lambda: planning.task_add("a1b2c3d4e5f6", "Nowhere"))
attempt("blocked", lambda: planning.task_update(plan, second, status="done"))
attempt("no change", lambda: planning.task_update(plan, first))
attempt("cycle", lambda: planning.task_update(plan, first, deps=[second]))
attempt("other column", lambda: planning.task_update(plan, first, status="review"))
attempt("done", lambda: planning.task_update(plan, first, status="done"))
attempt("no task", lambda: planning.task_update(plan, "0f1e2d3c4b5a", status="done"))
attempt("list", lambda: planning.task_list(plan))
attempt("by status", lambda: planning.task_list(status="done"))
attempt("list of no plan", lambda: planning.task_list("a1b2c3d4e5f6"))
attempt("board", lambda: planning.plan_board(plan))
attempt("boards", lambda: planning.plan_board())
attempt("plans", lambda: planning.plan_list())
attempt("add third", lambda: planning.task_add(plan, "Celebrate"))
attempt("raw claim", lambda: client.rpc(ClaimRequest(plan_id=plan)))
print(json.dumps(results), flush=True)
client.disconnect()
