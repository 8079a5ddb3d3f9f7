"""
The env API of the A2E Python SDK against our host, through its public calls only, and by requests of its own models where it has no call.
Where its models lack `req_id`, so that its client cannot match the reply, the same request is made with models that have it.

Usage: python-env.py '["stdio", "program", "arg", ...]' or '["http", "http://127.0.0.1:4700", "token"]'

Prints one JSON object: what each call returned.
"""
import json
import logging
import sys
import time

from a2e.caps.env import protocol as models
from a2e.caps.env.client import EnvAPI
from a2e.core.client.client import A2EClient
from a2e.core.transports.http import HTTPTransport
from a2e.core.transports.subprocess import SubprocessTransport

logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
logger = logging.getLogger("python-env")

target = json.loads(sys.argv[1])
results = {}


def client_of(agent_id):
    if target[0] == "stdio":
        transport = SubprocessTransport(command=target[1:], logger=logger)
    else:
        transport = HTTPTransport(base_url=target[1], logger=logger)
    token = target[2] if target[0] == "http" else ""
    client = A2EClient(transport=transport, logger=logger, agent_id=agent_id, auth_token=token, agent_caps=["env"])
    client.connect()
    return client


def plain(value):
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def attempt(name, action):
    begun = time.monotonic()
    try:
        results[name] = plain(action())
    except Exception as error:  # every outcome is a result here
        results[name] = {"failed": type(error).__name__, "code": getattr(error, "code", ""), "message": str(error)}
    results[name + " seconds"] = time.monotonic() - begun
    return results[name]


def act(action):
    return {"action_type": "step", "payload": {"action": action}}


client = client_of("python-agent")
env = EnvAPI(client)

first = attempt("reset", lambda: env.reset("FrozenLake-v1", seed=42, options={"make": {"is_slippery": False}}))
episode = first["obs"]["episode_id"]
attempt("step", lambda: env.step(episode, act(2)))
attempt("observe", lambda: env.observe(episode))
attempt("not an action", lambda: env.step(episode, act(9)))
attempt("its own form of an action", lambda: env.step(episode, {"type": "tool_call", "tool": "move", "args": {}}))
attempt("no such episode", lambda: env.step("nonesuch", act(0)))
attempt("no such environment", lambda: env.reset("Nonesuch-v0"))
attempt("a wrong option", lambda: env.reset("FrozenLake-v1", options={"make": {"slippery": 1}}))
steps = [env.step(episode, act(action)).obs for action in (2, 1, 1, 1, 2)]
results["goal"] = [[obs.state.model_dump()["observation"], obs.reward, obs.done, env.is_done(obs.done, obs.truncated)] for obs in steps]
attempt("a step behind the end", lambda: env.step(episode, act(0)))
two = [env.reset("CartPole-v1", seed=seed).obs.episode_id for seed in (1, 2)]
results["at once"] = [env.step(one, act(1)).obs.step_num for one in (*two, *two)]
attempt("experience", lambda: client.rpc(models.EnvExpListRequest(episode_id=episode, limit=2), timeout=10).episodes)

endless = env.reset("test/Endless-v0").obs.episode_id
for action in (1, 0):
    env.step(endless, act(action))
listed = client.rpc(models.EnvExpListRequest(episode_id=endless), timeout=10).episodes
results["infinite rewards"] = [transition["reward"] for transition in listed[0]["transitions"]]

# These models have no `req_id`: the client drops it, and waits for a reply that has come.
attempt("close", lambda: env.close(two[1], timeout=2))
attempt("spaces", lambda: client.rpc(models.EnvSpacesRequest(env_name="CartPole-v1"), timeout=2))


def with_id(model):
    return type(model.__name__, (model,), {"__annotations__": {"req_id": str}, "req_id": ""})


for kind, model in (
    ("close", models.EnvCloseResponse), ("space", models.EnvSpacesResponse), ("render", models.EnvRenderResponse),
    ("plan", models.EnvPlanResponse), ("batch_step", models.EnvBatchStepResponse),
):
    client.update_msg_types({f"env/{kind}/resp": with_id(model)})
attempt("close with id", lambda: env.close(two[1]))
attempt("spaces with id", lambda: client.rpc(models.EnvSpacesRequest(env_name="CartPole-v1"), timeout=10))
attempt("render with id", lambda: client.rpc(models.EnvRenderRequest(episode_id=episode), timeout=10))
attempt("plan with id", lambda: client.rpc(models.EnvPlanRequest(episode_id=two[0]), timeout=10))
two.append(env.reset("CartPole-v1", seed=3).obs.episode_id)
both = [two[0], two[2]]
attempt("batch with id", lambda: client.rpc(models.EnvBatchStepRequest(episode_ids=both, actions=[act(0), act(1)]), timeout=10))
refused = models.EnvBatchStepRequest(episode_ids=both, actions=[act(0), act(5)])
attempt("refused batch with id", lambda: client.rpc(refused, timeout=2))

# A push is for a session that did not make the step.
if target[0] == "http":
    seen = []
    other = client_of("python-agent")
    watching = EnvAPI(other)
    watching.on_push(lambda push: seen.append(plain(push)))
    options = {"durability": "step", "make": {"is_slippery": False}}
    durable = env.reset("FrozenLake-v1", seed=1, options=options).obs.episode_id
    # What its client looks the handler up by since Python 3.11: the text of the member, not its value.
    other.register_push_handler(str(models.MessageType.ENV_STATE_PUSH), watching._on_push)
    env.step(durable, act(1))
    deadline = time.monotonic() + 20
    while not seen and time.monotonic() < deadline:
        time.sleep(0.05)
    results["push"] = seen
    other.disconnect()
print(json.dumps(results), flush=True)
client.disconnect()
