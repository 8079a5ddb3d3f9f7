"""
Every call of the public API of the A2E Python SDK's client against our host, over one transport.

Usage: python-whole.py SETTINGS      JSON, see `Settings` in python-whole.ts

Prints one JSON object: the calls and the messages the SDK has, the checks with their outcomes, what was called with which parameters, and
the faults of the SDK that were met. `sdk_surface.py` finds the calls, `sdk_checks.py` judges them, `sdk_faults.py` knows the faults.
"""
import itertools
import json
import os
import sys
import threading

import sdk_surface

# Before anything of the SDK is used: what is imported from its modules later is what the recorder watches.
listed, requests = sdk_surface.calls(), sdk_surface.requests()
recorder = sdk_surface.watch()

from a2e.caps.base.protocol import Ping
from a2e.caps.chains.client import ChainsAPI
from a2e.caps.chains.protocol import ChainNode
from a2e.caps.env import protocol as env_models
from a2e.caps.env.client import EnvAPI
from a2e.caps.learn import client as learn_client
from a2e.caps.learn.protocol import AdaptStrategy, Experience, FeedbackDimension, FeedbackPolarity, FeedbackSource
from a2e.caps.mcp import protocol as mcp_models
from a2e.caps.mcp.client import MCPAPI
from a2e.caps.memory import MemoryEntry
from a2e.caps.memory.client import MemoryAPI
from a2e.caps.multi_agent.client import MultiAgentAPI
from a2e.caps.planning.client import PlanningAPI
from a2e.caps.proc.client import ProcsAPI
from a2e.caps.skills.client import SkillAPI
from a2e.caps.subagents import protocol as subagent_models
from a2e.caps.subagents.client import SubagentClient
from a2e.caps.toolkits.client import ToolkitAPI
from a2e.caps.tools.client import ToolAPI
from sdk_checks import Checks, plain, wait_for
from sdk_faults import AwaitingTransport, Faults
from sdk_transports import Opener

settings = json.loads(sys.argv[1])
checks = Checks(recorder)
check, refused = checks.check, checks.refused
opener = Opener(settings)
CAPABILITIES = [
    "tools", "toolkits", "skill", "env", "proc", "memory", "learning", "chains", "multi_agent", "planning", "mcp",
]

client = check(
    "A2EClient.__init__", "of an agent with its name, token, capabilities and types",
    lambda: opener.client(CAPABILITIES, type_registry={"ping": Ping}), lambda made: made is not None,
)
faults = Faults(client)


def core():
    check("A2EClient.connect", "shakes hands", client.connect, lambda _: client._session_id != "")
    check(
        "A2EClient.capabilities", "has all eleven, with what leads each", client.capabilities,
        lambda granted: sorted(plain(each)["capability"] for each in granted if each.enabled) == sorted(CAPABILITIES)
        and all(each.metadata.get("name") for each in granted),
    )
    check("A2EClient.ping", "takes milliseconds", lambda: client.ping(timeout=20.0), lambda ms: 0 < ms < 20_000)
    check("A2EClient.encode", "writes a message", lambda: client.encode(Ping()), lambda line: json.loads(line)["type"] == "ping")
    check("A2EClient.decode", "reads one", lambda: client.decode('{"type":"pong","req_id":"1"}'), lambda message: message.req_id == "1")
    check(
        "A2EClient.update_msg_types", "learns a type of message",
        lambda: client.update_msg_types({"handfast/none": Ping}), lambda _: client._type_registry["handfast/none"] is Ping,
    )
    events = []
    from a2e.caps.tools import TOOL_TYPE_MAP, ToolCallRequest
    client.update_msg_types(TOOL_TYPE_MAP)
    check(
        "A2EClient.rpc", "sends a model, hears its events and gets its reply",
        lambda: client.rpc(ToolCallRequest(tool_name="steps", arguments={}, streaming=True), timeout=20.0, event_callback=events.append),
        lambda reply: reply.data.data == {"done": True} and [event.seq for event in events] == [0, 1, 2, 3],
    )

    def within():
        with opener.client(["tools"]) as other:
            return other.ping()

    check("A2EClient.__enter__", "connects for a block", within, lambda ms: ms > 0)
    check("A2EClient.__exit__", "and leaves it", within, lambda ms: ms > 0)


def tools():
    api = ToolAPI(client)
    names = lambda found: [tool.name for tool in found]
    check("ToolAPI.__init__", "of the client", lambda: ToolAPI(client), lambda made: made._c is client)
    check("ToolAPI.list", "the tools with their parameters", api.list, lambda found: [
        [each.name, each.type, each.required] for tool in found if tool.name == "greet" for each in tool.input_parameters
    ] == [["name", "string", True], ["manner", "string", False], ["options", "object", False]])
    check("ToolAPI.list", "by tags", lambda: api.list(tags=["text", "social"], timeout=20), lambda found: names(found) == ["greet"])
    check("ToolAPI.list", "by kind", lambda: api.list(kind="other"), lambda found: isinstance(found, list))
    check("ToolAPI.list", "by a search among deferred ones", lambda: api.list(query="RARE", include_deferred=True), lambda found: names(found) == ["rare"])
    events = []
    check(
        "ToolAPI.call", "with its events in order, all before the result",
        lambda: api.call("steps", {}, on_event=events.append, timeout=20, correlation_id="c-1"),
        lambda result: result.success and result.data == {"done": True} and result.summary == "four steps"
        and [[event.kind, event.seq] for event in events] == [["status", 0], ["progress", 1], ["log", 2], ["artifact", 3]],
    )
    silent = []
    check(
        "ToolAPI.call", "without events", lambda: api.call("steps", {}, streaming=False, on_event=silent.append),
        lambda result: result.data == {"done": True} and silent == [],
    )
    check("ToolAPI.call", "with an exit code", lambda: api.call("exit", {}), lambda result: result.exit_code == 3)
    text = "été 東京 😀 \u2028\u2029\u0085\u007f \\ \" \t" * 1000
    check("ToolAPI.call", "with any text", lambda: api.call("echo", {"value": text}), lambda result: result.data == {"value": text})
    refused("ToolAPI.call", "of no tool", lambda: api.call("nonesuch", {}), "unknown_tool")
    refused("ToolAPI.call", "with a wrong argument", lambda: api.call("greet", {"name": 7}), "schema_violation")
    refused("ToolAPI.call", "that fails", lambda: api.call("breaks", {}), "tool_error")
    refused("ToolAPI.call", "that takes too long", lambda: api.call("nap", {"ms": 60_000}, timeout=1), "timeout")


def toolkits():
    api, tool_api = ToolkitAPI(client), ToolAPI(client)
    names = lambda found: [each.name for each in found]
    check("ToolkitAPI.__init__", "of the client", lambda: ToolkitAPI(client), lambda made: made._c is client)
    check("ToolkitAPI.list", "all", lambda: api.list(timeout=20), lambda found: names(found) == ["filesystem", "search", "sqlite"])
    check("ToolkitAPI.list", "by kind", lambda: api.list(filter_kind="data"), lambda found: names(found) == ["sqlite"])
    check("ToolkitAPI.list", "by tags", lambda: api.list(filter_tags=["fs"]), lambda found: names(found) == ["filesystem"])
    check("ToolkitAPI.get", "one with its schema", lambda: api.get("sqlite", timeout=20), lambda found: (
        found.tools == ["sqlite_schema", "sqlite_query"] and not found.configured and "max_rows" in found.schema["properties"]))
    check("ToolkitAPI.get", "none", lambda: api.get("nothing"), lambda found: found is None)
    check(
        "ToolkitAPI.ensure", "of one that is not configured", lambda: api.ensure("sqlite", {"max_rows": 7}, timeout=15),
        lambda reply: (reply.toolkit_name, reply.status) == ("sqlite", "ok"), faults.toolkits,
    )
    check(
        "ToolkitAPI.configure", "with its schema", lambda: api.configure("sqlite", {"database": "a.db", "max_rows": 2}, timeout=20),
        lambda reply: (reply.toolkit_name, reply.status) == ("sqlite", "ok"), faults.toolkits,
    )
    check("ToolkitAPI.ensure", "of one that is", lambda: api.ensure("sqlite", {"max_rows": 2}), lambda found: found.configured)
    check("ToolAPI.list", "names the toolkit of a tool", tool_api.list, lambda found: [
        tool.name for tool in found if tool.toolkit == "sqlite"] == ["sqlite_schema", "sqlite_query"])


def skills():
    api = SkillAPI(client)
    names = lambda found: [each.name for each in found]
    check("SkillAPI.__init__", "of the client", lambda: SkillAPI(client), lambda made: made._c is client)
    check("SkillAPI.discover", "all", lambda: api.discover(timeout=20), lambda found: names(found) == ["count", "throws"], faults.skills)
    check("SkillAPI.discover", "by tags", lambda: api.discover(tags=["text"]), lambda found: names(found) == ["count"] and found[0].version == "1.2.0", faults.skills)
    check("SkillAPI.discover", "by categories", lambda: api.discover(categories=["none"]), lambda found: found == [])
    events = []
    check(
        "SkillAPI.call", "with its events", lambda: api.call("count", {"path": "poem.txt"}, on_event=events.append, timeout=40),
        lambda result: result.success and result.data == {"words": 3}
        and [event.kind for event in events] == ["skill.started", "progress", "tool.started", "tool.completed", "skill.completed"],
    )
    silent = []
    check(
        "SkillAPI.call", "without events", lambda: api.call("count", {"path": "poem.txt"}, streaming=False, on_event=silent.append),
        lambda result: result.data == {"words": 3} and silent == [],
    )
    refused("SkillAPI.call", "that fails", lambda: api.call("throws", {}), "skill_error")
    refused("SkillAPI.call", "of no skill", lambda: api.call("nothing", {}), "unknown_skill")


def act(action):
    return {"action_type": "step", "payload": {"action": action}}


def env():
    api = EnvAPI(client)
    check("EnvAPI.__init__", "of the client", lambda: EnvAPI(client), lambda made: made._c is client)
    first = check(
        "EnvAPI.reset", "with a seed and options",
        lambda: api.reset("FrozenLake-v1", seed=42, options={"make": {"is_slippery": False}}, timeout=40),
        lambda reply: (reply.obs.step_num, reply.obs.state.model_dump(), reply.obs.done) == (0, {"observation": 0}, False),
    )
    episode = first.obs.episode_id if first else ""
    check("EnvAPI.step", "moves", lambda: api.step(episode, act(2), timeout=40), lambda reply: reply.obs.state.model_dump() == {"observation": 1})
    check("EnvAPI.observe", "sees what is there", lambda: api.observe(episode, timeout=40), lambda obs: (obs.step_num, obs.state.model_dump()) == (1, {"observation": 1}))

    def goal():
        for action in (2, 1, 1, 1, 2):
            obs = api.step(episode, act(action)).obs
        return api.is_done(obs.done, obs.truncated), obs.reward

    check("EnvAPI.is_done", "at the goal", goal, lambda value: value == (True, 1.0))
    refused("EnvAPI.step", "behind the end", lambda: api.step(episode, act(0)), "runtime_error")
    refused("EnvAPI.reset", "of no environment", lambda: api.reset("Nonesuch-v0"), "runtime_error")
    second, third = [api.reset("CartPole-v1", seed=seed).obs.episode_id for seed in (1, 2)]
    refused("EnvAPI.step", "with no action of the space", lambda: api.step(second, act(9)), "unknown_action")
    rpc = lambda request: lambda: client.rpc(request, timeout=checks.patience)
    check("A2EClient.rpc", "the spaces of an environment", rpc(env_models.EnvSpacesRequest(env_name="CartPole-v1")), lambda reply: (
        reply.action_space == {"type": "Discrete", "n": 2, "start": 0} and reply.state_schema["space"]["shape"] == [4]), faults.env)
    check("A2EClient.rpc", "a picture of an episode", rpc(env_models.EnvRenderRequest(episode_id=second)), lambda reply: (
        reply.render["mime"] == "image/png"), faults.env)
    check("A2EClient.rpc", "suggested actions", rpc(env_models.EnvPlanRequest(episode_id=second)), lambda reply: len(reply.suggested_actions) == 2, faults.env)
    check("A2EClient.rpc", "steps of several episodes", rpc(env_models.EnvBatchStepRequest(episode_ids=[second, third], actions=[act(0), act(1)])), lambda reply: (
        len(reply.results) == 2), faults.env)
    check("A2EClient.rpc", "the transitions of an episode", rpc(env_models.EnvExpListRequest(episode_id=episode, limit=2)), lambda reply: (
        [each["index"] for each in reply.episodes[0]["transitions"]] == [5, 6]))
    check("EnvAPI.close", "ends an episode", lambda: api.close(third, timeout=checks.patience), lambda reply: reply.closed is True, faults.env)
    pushes()


def pushes():
    """A push of a step is for another session of the same agent."""
    with opener.pair(["env"]) as (stepping, watching):
        api = EnvAPI(stepping)
        options = {"durability": "step", "make": {"is_slippery": False}}
        episode = api.reset("FrozenLake-v1", seed=1, options=options).obs.episode_id
        seen = []
        moves = itertools.cycle((1, 3))

        def step():
            """Moves, and waits until the watching session has received the push and done with it what it does."""
            before = recorder.received.count("env/state/push")
            obs = api.step(episode, act(next(moves))).obs
            wait_for(lambda: recorder.received.count("env/state/push") > before)
            watching.ping()
            return obs

        def heard():
            other = EnvAPI(watching)
            other.on_push(seen.append)
            del seen[:]
            obs = step()
            found = [[push.episode_id == episode, push.step_id == obs.step_num - 1, push.delta] for push in seen]
            other.remove_push_callback(seen.append)
            step()
            return found, len(seen)

        right = lambda value: (
            len(value[0]) == 1 and value[0][0][:2] == [True, True] and set(value[0][0][2]) == {"observation"} and value[1] == 1)
        check("EnvAPI.on_push", "hears a step of another session", heard, right, faults.env_push)
        check("EnvAPI.remove_push_callback", "and then no more", heard, right, faults.env_push)


def proc():
    api = ProcsAPI(client)
    check("ProcsAPI.__init__", "of the client", lambda: ProcsAPI(client), lambda made: made._c is client)
    heard = []

    def talk():
        del heard[:]
        reply = api.spawn(["sh", "-c", 'read line; echo "$A $line"; pwd'], cwd="sub", env={"A": "1"}, timeout=60, on_output=heard.append)
        api.write(reply.proc_id, "two\n")
        for _ in range(60):
            if any("code" in event.data for event in heard) or api.status(reply.proc_id).status == "completed" and not heard:
                break
            threading.Event().wait(0.05)
        return [event.data for event in heard if event.proc_id == reply.proc_id]

    check("ProcsAPI.spawn", "with variables, a folder, a time limit and its output", talk, lambda found: (
        len(found) == 3 and found[0] == {"text": "1 two\n"} and found[1]["text"].endswith("/sub\n") and found[2] == {"code": 0}), faults.proc_output)
    reply = check("ProcsAPI.spawn", "of one that waits for input", lambda: api.spawn(["cat"]), lambda reply: reply.ok and reply.pid > 1)
    cat = reply.proc_id if reply else ""
    check("ProcsAPI.status", "running", lambda: api.status(cat, timeout=20), lambda status: (status.status, status.error) == ("running", ""))
    check("ProcsAPI.status", "of all", lambda: api.status(), lambda status: status.status == "running")
    check("ProcsAPI.write", "to its end", lambda: api.write(cat, "last", eof=True), lambda _: wait_for(
        lambda: api.status(cat).status == "completed"))
    sleeper = api.spawn(["sleep", "600"]).proc_id
    check("ProcsAPI.kill", "by a signal", lambda: api.kill(sleeper, signal="SIGKILL", timeout=20), lambda reply: reply.ok and reply.state != "")
    check("ProcsAPI.status", "killed", lambda: api.status(sleeper), lambda status: (status.status, status.error) == ("killed", "SIGKILL"))
    check("ProcsAPI.spawn", "without input", lambda: api.spawn(["cat"], stdin_mode="null").proc_id, lambda found: wait_for(
        lambda: api.status(found).status == "completed"))
    check("ProcsAPI.spawn", "of what is not allowed", lambda: api.spawn(["python3"]), lambda reply: not reply.ok and reply.error != "" and reply.pid == 0)


def memory():
    api = MemoryAPI(client)
    check("MemoryAPI.__init__", "of the client", lambda: MemoryAPI(client), lambda made: made.memory_id is None)
    check("MemoryAPI.init", "opens one", lambda: api.init("python", {"user": "u1"}, {"purpose": "test"}), lambda reply: (
        reply.success and reply.namespace == "python" and api.memory_id == reply.memory_id))
    entries = [
        MemoryEntry(key={"topic": "city"}, content="Ada lives in Lisbon", tier="episodic", tags=["profile"]),
        MemoryEntry(key={"topic": "prefs"}, content={"lang": "en"}, tier="semantic", tags=["profile", "ui"], score=0.9),
    ]
    check("MemoryAPI.store", "entries", lambda: api.store(entries, timeout=20), lambda value: value == ([{"topic": "city"}, {"topic": "prefs"}], []))
    check("MemoryAPI.store", "says what is wrong with one", lambda: api.store([{"key": {"a": 1}, "content": 1, "tier": "none"}]), lambda value: (
        value[0] == [] and len(value[1]) == 1))
    contents = lambda found: [entry.content for entry in found]
    check("MemoryAPI.retrieve", "by key", lambda: api.retrieve(keys=[{"topic": "city"}], timeout=20), lambda found: contents(found) == ["Ada lives in Lisbon"])
    check("MemoryAPI.retrieve", "by a query", lambda: api.retrieve(query="where does Ada live", limit=1, min_score=0.01), lambda found: (
        contents(found) == ["Ada lives in Lisbon"] and 0 < found[0].score <= 1))
    check("MemoryAPI.retrieve", "by tags and tier", lambda: api.retrieve(tags=["profile"], tier="semantic"), lambda found: contents(found) == [{"lang": "en"}])
    check("MemoryAPI.forget", "by key", lambda: api.forget(keys=[{"topic": "city"}], timeout=20), lambda deleted: deleted == 1)
    check("MemoryAPI.forget", "by tags and tier", lambda: api.forget(tags=["ui"], tier="semantic"), lambda deleted: deleted == 1)
    check("MemoryAPI.remember", "under an object", lambda: api.remember({"k": 1}, "one", "episodic", tags=["n"], ttl=600, score=0.5), lambda value: value == ([{"k": 1}], []))
    check("MemoryAPI.recall", "by an object", lambda: api.recall({"k": 1}), lambda value: value == "one")
    check("MemoryAPI.recall", "of nothing", lambda: api.recall({"k": 2}, default="none"), lambda value: value == "none")
    check("MemoryAPI.remember", "under a text", lambda: api.remember("plain", "text", "episodic"), lambda value: value == ([{"key": "plain"}], []), faults.memory)
    check("MemoryAPI.recall", "by a text", lambda: api.recall("plain"), lambda value: value == "text", faults.memory)


def learning():
    check("LearnAPI.__init__", "of the client", lambda: learn_client.LearnAPI(client), lambda made: made._c is client, faults.learn)
    made = lambda: learn_client.LearnAPI(client)
    fault = faults.learn
    names = lambda records: [record.component_name for record in records]
    check("LearnAPI.feedback", "on a turn", lambda: made().feedback(
        FeedbackPolarity.CORRECTIVE, score=0.5, dimension=FeedbackDimension.CORRECTNESS, confidence=0.9, prompt="p", response="r", model="m",
        environment={"os": "linux"}, version="skill-2", correlation_id="c-1", session_id="s-1", comment="c", correction="better",
        correction_span=(0, 1), source=FeedbackSource.SELF, annotator_id="a-1", timeout=20,
    ), lambda reply: (reply.recorded, reply.new_score) == (1, 0.5), fault)
    check("LearnAPI.reward", "of a component", lambda: made().reward("skill-2", -0.5, correlation_id="c-2"), lambda reply: reply.recorded == 1, fault)
    check("LearnAPI.experience", "of models", lambda: made().experience(
        [Experience(action={"component_name": "grep"}, reward=1.0, done=True)], timeout=20), lambda stored: stored == 1, fault)
    check("LearnAPI.stats", "of all", lambda: made().stats(), lambda records: "skill-2" in names(records), fault)
    check("LearnAPI.stats", "of one", lambda: made().stats("skill-2", timeout=20), lambda records: names(records) == ["skill-2"], fault)
    check("LearnAPI.adapt", "by a strategy", lambda: made().adapt("skill-2", AdaptStrategy.UCB1, timeout=20), lambda records: (
        names(records) == ["skill-2"]), fault)
    refine = lambda **options: lambda: made().refine(**options)
    proposal = {"target": "router_weight", "op": "update", "path": "router.weights.grep", "new_value": 0.7}
    check("LearnAPI.refine", "plan", refine(component_name="skill-2", scope="global", strategy=AdaptStrategy.SOFTMAX, timeout=20), lambda reply: (
        reply["status"] in ("ready", "empty")), fault)
    check("LearnAPI.refine", "review", refine(action="review", proposal=proposal), lambda reply: reply["risk_level"] in ("low", "medium", "high"), fault)
    applied = check("LearnAPI.refine", "apply", refine(action="apply", proposal=proposal), lambda reply: (
        (reply["applied_edits"], reply["rollback_available"]) == (1, True)), fault)
    check("LearnAPI.refine", "rollback", refine(action="rollback", refinement_id=(applied or {}).get("refinement_id", "none")), lambda reply: (
        reply["rolled_back"] and reply["error"] == ""), fault)
    check("LearnAPI.refine", "history", refine(action="history"), lambda reply: len(reply["entries"]) >= 1, fault)


def chains():
    api = ChainsAPI(client)
    check("ChainsAPI.__init__", "of the client", lambda: ChainsAPI(client), lambda made: made._c is client)
    events = []

    def run(**options):
        del events[:]
        nodes = [
            ChainNode(node_id="greet", kind="tool", name="greet", input_map={"name": "$.who"}, next_node="each"),
            ChainNode(node_id="each", kind="map", items_path="$.numbers", map_node="echo", next_node="test"),
            ChainNode(node_id="echo", kind="tool", name="echo", input_map={"value": "$.item"}),
            ChainNode(node_id="test", kind="branch", condition="$.limit > 1", true_node="count", false_node="other"),
            ChainNode(node_id="other", kind="tool", name="breaks"),
            ChainNode(node_id="count", kind="skill", name="count", input={"path": "poem.txt"}, on_error="skip"),
        ]
        return api.run(
            nodes, "greet", {"who": "Ada", "numbers": [1, 2], "limit": 2}, on_event=events.append, correlation_id="c-1", timeout=60, **options)

    right = lambda result: (
        result.success and result.outputs["greet"] == {"text": "Hello, Ada"} and len(result.outputs["each"]) == 2
        and result.final_output == {"words": 3} and result.error is None)
    check("ChainsAPI.run", "with tool, skill, map and branch, and its events", run, lambda result: (
        right(result) and [event.phase for event in events if event.node_id == "greet"] == ["start", "done"]), faults.chains)
    check("ChainsAPI.run", "without events", lambda: run(streaming=False), lambda result: right(result) and events == [], faults.chains)
    broken = [{"node_id": "a", "kind": "tool", "name": "breaks"}]
    check("ChainsAPI.run", "that fails, of mappings", lambda: api.run(broken, "a"), lambda result: (
        not result.success and result.error["code"] == "chain_node_error"), faults.chains)


def multi_agent():
    api = MultiAgentAPI(client)
    check("MultiAgentAPI.__init__", "of the client", lambda: MultiAgentAPI(client), lambda made: made._c is client)
    spawned = check("MultiAgentAPI.spawn", "with all it takes", lambda: api.spawn(
        "scout", role="finder", model="echo", max_steps=5, metadata={"team": "a"}, timeout=40), lambda reply: reply.status == "READY")
    scout = spawned.subagent_id if spawned else ""
    check("MultiAgentAPI.delegate", "a task", lambda: api.delegate(scout, "options", "List three", ["three of them"], timeout=40), lambda reply: (
        reply.accepted and reply.status == "RUNNING"))
    check("MultiAgentAPI.await_", "its result", lambda: api.await_(scout, timeout=40), lambda reply: (
        (reply.status, reply.result, reply.error) == ("COMPLETED", {"summary": "List three"}, None)))
    check("MultiAgentAPI.list", "all", lambda: api.list(timeout=40), lambda reply: scout in [each["subagent_id"] for each in reply.subagents])
    check("MultiAgentAPI.terminate", "it", lambda: api.terminate(scout, timeout=40), lambda reply: reply.success)
    check("MultiAgentAPI.terminate", "it again", lambda: api.terminate(scout), lambda reply: not reply.success)


class SubagentLink:
    """The transport of the SDK's client of subagents: one of its own as it is, and one that works once it is mended."""

    def __init__(self):
        self.transport = opener.spare()


def subagents():
    link = SubagentLink()
    fault = faults.subagents
    working = AwaitingTransport(client, client._transport, recorder)
    fault.mend = lambda changes: changes.set(link, "transport", working)
    made = lambda: SubagentClient(link.transport)
    check("SubagentClient.__init__", "of a transport", made, lambda client: client.transport is link.transport)
    spawned = check("SubagentClient.spawn", "with all it takes", lambda: made().spawn(
        name="worker", model="echo", role="doer", system_prompt="Be brief.", capabilities=["tools"]), lambda reply: reply.status == "READY", fault)
    worker = spawned.subagent_id if spawned else ""
    check("SubagentClient.delegate", "a task", lambda: made().delegate(
        subagent_id=worker, task_name="t", instruction="Say it", success_criteria=["said"]), lambda reply: reply.accepted and reply.status == "RUNNING", fault)
    check("SubagentClient.await_result", "its result", lambda: made().await_result(worker), lambda reply: (
        reply.status == "COMPLETED" and reply.result == {"summary": "Say it"}), fault)
    check("SubagentClient.run", "all three", lambda: made().run(name="one", model="echo", task_name="t", instruction="Run it"), lambda reply: (
        reply.status == "COMPLETED" and reply.result == {"summary": "Run it"}), fault)
    # The client has no calls for these; its models have messages.
    say = lambda request: lambda: (SubagentClient(working), working.send(request))[1]
    payload = subagent_models.SubagentMessagePayload(type="text", content="hello")
    messages = subagent_models
    check("SubagentClient.__init__", "and sends a message to a subagent", say(messages.SubagentMessageRequest(
        from_subagent_id=worker, to_subagent_id=worker, message=payload)), lambda reply: reply.delivered in (True, False))
    check("SubagentClient.__init__", "and lists them", say(messages.SubagentListRequest()), lambda reply: (
        worker in [each.subagent_id for each in reply.subagents]))
    check("SubagentClient.__init__", "and merges results", say(messages.SubagentMergeRequest(subagent_ids=[worker], strategy="concat")), lambda reply: (
        "Say it" in json.dumps(reply.merged_result)))
    check("SubagentClient.__init__", "and cancels", say(messages.SubagentCancelRequest(subagent_id=worker)), lambda event: event.subagent_id == worker)
    check("SubagentClient.__init__", "and terminates", say(messages.SubagentTerminateRequest(subagent_id=worker)), lambda event: (
        event.subagent_id == worker and event.event == "terminated"))
    opener.stop(link.transport)


def planning():
    api = PlanningAPI(client)
    check("PlanningAPI.__init__", "of the client", lambda: PlanningAPI(client), lambda made: made._c is client)
    created = check("PlanningAPI.plan_create", "with columns", lambda: api.plan_create(
        "release", ["todo", "doing", "done"], "of the product", timeout=20), lambda reply: reply.success and reply.columns == ["todo", "doing", "done"])
    plan = created.plan_id if created else ""
    check("PlanningAPI.plan_list", "all", lambda: api.plan_list(timeout=20), lambda reply: plan in [each["plan_id"] for each in reply.plans])
    first = check("PlanningAPI.task_add", "a task", lambda: api.task_add(plan, "Write"), lambda reply: reply.success and reply.task_id != "")
    first = first.task_id if first else ""
    second = check("PlanningAPI.task_add", "with all it takes", lambda: api.task_add(
        plan, "Test", status="todo", description="all of it", assignee="Ada", deps=[first], metadata={"size": "s"}, timeout=20), lambda reply: (
        reply.success and reply.status == "todo"))
    second = second.task_id if second else ""
    check("PlanningAPI.task_update", "its state, assignee and dependencies", lambda: api.task_update(
        plan, first, status="done", assignee="Bob", deps=[], timeout=20), lambda reply: reply.success)
    check("PlanningAPI.task_update", "its dependencies", lambda: api.task_update(plan, second, deps=[first]), lambda reply: reply.success)
    check("PlanningAPI.task_update", "of no task", lambda: api.task_update(plan, "none", status="done"), lambda reply: not reply.success)
    check("PlanningAPI.task_list", "by state", lambda: api.task_list(plan, status="done", timeout=20), lambda reply: (
        [(each["title"], each["assignee"]) for each in reply.tasks] == [("Write", "Bob")]))
    check("PlanningAPI.plan_board", "of a plan", lambda: api.plan_board(plan, timeout=20), lambda reply: (
        [task["title"] for task in reply.boards[0]["tasks"]["todo"]] == ["Test"]))


def mcp():
    api, tool_api = MCPAPI(client), ToolAPI(client)
    fault = faults.mcp
    sampled = []

    def sample(message):
        fields = plain(message)
        sampled.append(fields["max_tokens"])
        client._transport.send(client.encode(mcp_models.MCPSamplingResponse(
            req_id=fields["id"], server_id=fields["server_id"], mcp_request_id=fields["mcp_request_id"],
            content={"type": "text", "text": "as Python says"}, model="small-1", stop_reason="endTurn",
        )))

    # The handler of a type with a model is looked up by the name of the member (fault push-names).
    for name in ("mcp/sample/req", str(mcp_models.MessageType.MCP_SAMPLE_REQ)):
        client.register_push_handler(name, sample)
    check("MCPAPI.__init__", "of the client", lambda: MCPAPI(client), lambda made: made._c is client)
    check("MCPAPI.list_servers", "none", api.list_servers, lambda servers: servers == [])
    # The call as it is registers its server before it fails.
    names = iter(("tried", "all"))

    def register():
        name = next(names)
        return api.register_server(name, {"server_id": name, "name": name, "cmd": settings["mcp"]}, {"sampling": {}})

    known = lambda servers: sorted(each.name for each in servers) == ["all", "tried"]
    check("MCPAPI.register_server", "one", register, lambda server: (
        (server.server_id, server.status) == ("all", "ready") and server.tools_count > 3), fault)
    check("MCPAPI.list_servers", "all", api.list_servers, known, fault)
    check("MCPAPI.list_servers", "as they were known", lambda: api.list_servers(refresh=False), known)
    check("MCPAPI.list_tools", "of all", lambda: MCPAPI(client).list_tools(), lambda tools: "all__echo" in [tool.name for tool in tools], fault)
    check("MCPAPI.list_tools", "of one", lambda: MCPAPI(client).list_tools(server_name="all"), lambda tools: "all__echo" in [tool.name for tool in tools], fault)
    check("MCPAPI.find_tool", "its server", lambda: MCPAPI(client).find_tool("all__echo"), lambda servers: servers == ["all"], fault)
    check("MCPAPI.call_tool", "of a server that has it", lambda: MCPAPI(client).call_tool(
        "all__echo", {"message": "hello"}, strategy="any", tool_api=tool_api, timeout=40), lambda result: "Echo: hello" in json.dumps(plain(result)), fault)
    check("MCPAPI.call_tool", "of a server that samples", lambda: api.call_tool(
        "all__trigger-sampling-request", {"prompt": "hi", "maxTokens": 7}, server_name="all", tool_api=tool_api), lambda result: (
        "as Python says" in json.dumps(plain(result)) and sampled == [7]))
    rpc = lambda request: lambda: client.rpc(request, timeout=40.0)
    models, uri = mcp_models, "demo://resource/dynamic/text/7"
    check("A2EClient.rpc", "the resources of a server", rpc(models.MCPResourceListRequest(server_id="all")), lambda reply: (
        reply.resources and all(each["server_id"] == "all" for each in plain(reply.resources))))
    check("A2EClient.rpc", "a resource", rpc(models.MCPResourceReadRequest(uri=uri, server_id="all")), lambda reply: (
        plain(reply.contents)[0]["text"].startswith("Resource 7")))
    check("A2EClient.rpc", "its changes", rpc(models.MCPResourceSubscribeRequest(uri=uri, server_id="all")), lambda reply: reply.ok)
    pushed = []

    def changed():
        client.register_push_handler("mcp/server/push", pushed.append)
        tool_api.call("all__toggle-subscriber-updates", {})
        return wait_for(lambda: pushed)

    check("A2EClient.register_push_handler", "of a notification of a server", changed, lambda found: found[0].type == "mcp/server/push")
    check("A2EClient.unregister_push_handler", "of it", lambda: client.unregister_push_handler("mcp/server/push", pushed.append), lambda _: (
        not client._push_handlers["mcp/server/push"]))
    check("A2EClient.rpc", "the prompts of a server", rpc(models.MCPPromptListRequest(server_id="all")), lambda reply: (
        "args-prompt" in [each["name"] for each in plain(reply.prompts)]))
    check("A2EClient.rpc", "a prompt", rpc(models.MCPPromptGetRequest(name="args-prompt", arguments={"city": "Lisbon"}, server_id="all")), lambda reply: (
        "Lisbon" in json.dumps(plain(reply.messages))))
    check("A2EClient.rpc", "the end of a server", rpc(models.MCPServerUnregisterRequest(server_id="all")), lambda reply: reply.ok)


def leave():
    child = getattr(client._transport, "_proc", None)
    check("A2EClient.disconnect", "ends the session", client.disconnect, lambda _: child is None or child.poll() == 0)
    opener.refused(checks)


for part in (core, tools, toolkits, skills, env, proc, memory, learning, chains, multi_agent, subagents, planning, mcp, leave):
    try:
        part()
    except Exception as error:  # what it did not come to is missing in the report
        checks.rows.append({"call": part.__name__, "what": "the part ended", "outcome": "failed", "fault": "", "note": repr(error)})
opener.transports(checks)
print(json.dumps({
    "calls": listed, "requests": requests, "checks": checks.rows, "faults": checks.faults,
    "made": {call: sorted(parameters) for call, parameters in recorder.made.items()},
    "sent": {kind: sorted(senders) for kind, senders in recorder.senders.items()},
}), flush=True)
# Threads of the SDK that still wait for a connection do not keep the program.
os._exit(0)
