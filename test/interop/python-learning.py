"""
The learning API of the A2E Python SDK against our host.

Usage: python-learning.py URL TOKEN EXPERIENCE_ID

`LearnAPI` of the SDK cannot be made: its module uses LEARN_TYPE_MAP without importing it. The first step shows that; then
the name is put into the module, nothing else is changed, and its methods run. Prints one JSON object per step.
"""
import json
import logging
import sys

from a2e.caps.learn import LEARN_TYPE_MAP, AdaptStrategy, FeedbackPolarity, LearnExperienceRequest, LearnStatsRequest
from a2e.caps.learn import client as learn_client
from a2e.core.client.client import A2EClient
from a2e.core.transports.http import HTTPTransport

logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
logger = logging.getLogger("python-learning")


def step(name, action):
    record = {"step": name, "ok": True}
    try:
        record["value"] = action()
    except Exception as error:  # every outcome is a result here
        record.update(ok=False, error=type(error).__name__, message=str(error))
        if hasattr(error, "code"):
            record["code"] = error.code
    print(json.dumps(record), flush=True)
    return record.get("value")


def main(url, token, experience_id):
    client = A2EClient(
        transport=HTTPTransport(base_url=url, logger=logger),
        logger=logger,
        agent_id="learner",
        auth_token=token,
        agent_caps=["learning"],
    )
    step("connect", client.connect)
    step("as it is", lambda: learn_client.LearnAPI(client) and None)
    # Raw messages: the SDK decodes the replies once it is told their types, as LearnAPI would.
    client.update_msg_types(LEARN_TYPE_MAP)
    step("raw stats", lambda: client.rpc(LearnStatsRequest(), timeout=10).model_dump(mode="json")["components"])
    experience = {"experience_id": experience_id, "reward": 1.0}
    step("raw reward", lambda: client.rpc(LearnExperienceRequest(experiences=[experience]), timeout=10).stored)
    learn_client.LEARN_TYPE_MAP = LEARN_TYPE_MAP
    learning = learn_client.LearnAPI(client)
    records = lambda found: [record.model_dump(mode="json") for record in found]
    rated = {"prompt": "p", "response": "r", "model": "m", "version": "skill-2"}
    step("feedback", lambda: learning.feedback(FeedbackPolarity.POSITIVE, score=0.5, **rated).model_dump(mode="json"))
    step("stats", lambda: records(learning.stats()))
    step("adapt", lambda: records(learning.adapt("hybrid", AdaptStrategy.PPO)))
    step("plan", lambda: learning.refine(action="plan"))
    proposal = {"target": "router_weight", "op": "update", "path": "router.weights.hybrid", "new_value": 0.7}
    step("review", lambda: learning.refine(action="review", proposal=proposal))
    applied = step("apply", lambda: learning.refine(action="apply", proposal=proposal))
    step("rollback", lambda: learning.refine(action="rollback", refinement_id=applied["refinement_id"]))
    step("history", lambda: learning.refine(action="history"))
    client.disconnect()


if __name__ == "__main__":
    main(*sys.argv[1:])
