"""The faults of the A2E Python SDK's client, each with the smallest change that lets its calls through."""
import asyncio
import json

from a2e.caps.chains import CHAIN_TYPE_MAP
from a2e.caps.env import protocol as env_models
from a2e.caps.learn import LEARN_TYPE_MAP
from a2e.caps.learn import client as learn_client
from a2e.caps.mcp import client as mcp_client
from a2e.caps.mcp.protocol import MCP_TYPE_MAP, MCPServerInfo, MCPServerListResponse
from a2e.caps.memory import client as memory_client
from a2e.caps.proc.client import ProcsAPI
from a2e.caps.proc.protocol import MessageType as ProcType
from a2e.caps.skills.protocol import SkillDefinition
from a2e.caps.subagents import protocol as subagent_models
from a2e.caps.toolkits import client as toolkit_client
from a2e.caps.tools.client import ToolAPI
from a2e.core.client.client import A2EClient
from sdk_checks import Fault, PATIENCE_S


def with_id(model):
    """A model of a reply that keeps the id of its request."""
    return type(model.__name__, (model,), {"__annotations__": {"req_id": str}, "req_id": ""})


def learn_import(changes):
    changes.set(learn_client, "LEARN_TYPE_MAP", LEARN_TYPE_MAP)


def skill_models(changes):
    changes.set(SkillDefinition, "keys", lambda self: list(type(self).model_fields))
    changes.set(SkillDefinition, "__getitem__", lambda self, name: getattr(self, name))


def toolkit_fields(changes):
    request = toolkit_client.ToolkitConfigureRequest
    changes.set(toolkit_client, "ToolkitConfigureRequest", lambda name, schema: request(toolkit_name=name, config=schema))
    response = toolkit_client.ToolkitConfigureResponse
    changes.set(response, "error", property(lambda self: "" if self.status == "ok" else self.message))
    changes.set(response, "toolkit", property(lambda self: self))


def memory_text_keys(changes):
    entry, request = memory_client.MemoryEntry, memory_client.MemoryRetrieveRequest
    loose = lambda model, field: type(model.__name__, (model,), {"__annotations__": {field: object if field == "key" else list}})
    changes.set(memory_client, "MemoryEntry", loose(entry, "key"))
    changes.set(memory_client, "MemoryRetrieveRequest", loose(request, "keys"))


class Faults:
    """Those that need the client of a run are made for it."""

    def __init__(self, client):
        def chains_attributes(changes):
            changes.set(client, "_chain_events", {})
            changes.set(client, "_rpc", client.rpc)
            changes.types(client, CHAIN_TYPE_MAP)

        def env_reply_ids(changes):
            changes.types(client, {
                f"env/{kind}/resp": with_id(model) for kind, model in (
                    ("close", env_models.EnvCloseResponse), ("space", env_models.EnvSpacesResponse),
                    ("render", env_models.EnvRenderResponse), ("plan", env_models.EnvPlanResponse),
                    ("batch_step", env_models.EnvBatchStepResponse),
                )
            })

        def mcp_tools(changes):
            tools = ToolAPI(client)
            changes.set(MCPServerInfo, "tools", property(lambda self: tools.list(tags=["mcp", self.server_id])))
            servers = {"__annotations__": {"servers": list[MCPServerInfo]}}
            listed = {"mcp/server/list/resp": type("MCPServerListResponse", (MCPServerListResponse,), servers)}
            changes.types(client, listed)
            # Every `MCPAPI` that is made registers its types again.
            changes.set(mcp_client, "MCP_TYPE_MAP", {**MCP_TYPE_MAP, **listed})

        self.learn = Fault(
            "learn-import", "the module of `LearnAPI` uses `LEARN_TYPE_MAP` and does not import it, so it cannot be made",
            "NameError", learn_import, "the name is put into the module",
        )
        self.chains = Fault(
            "chains-attributes",
            "`ChainsAPI` uses `_chain_events` and `_rpc` of the client, which it does not have, and does not register the types of its replies",
            "AttributeError", chains_attributes, "the client gets both, and the types",
        )
        self.skills = Fault(
            "skill-models", "`discover` unpacks the definitions of the reply as mappings; they are models already",
            "TypeError", skill_models, "a definition can be unpacked",
        )
        self.toolkits = Fault(
            "toolkit-fields",
            "`configure` passes `name` and `schema`, which its request does not have, so that both are lost, and reads `error` and `toolkit` "
            "of the reply, which has neither",
            "AttributeError", toolkit_fields, "the request and the reply get the names of their fields",
        )
        self.mcp = Fault(
            "mcp-tools",
            "`MCPAPI` reads `tools` of a server, which the model of a server does not have, and members of listed servers, which are mappings",
            "AttributeError", mcp_tools,
            "listed servers are models, and `tools` of one are those of `ToolAPI.list` with its tag",
        )
        self.memory = Fault(
            "memory-keys", "`remember` and `recall` say that a key is a text; their models want an object. With an object they work as they are",
            "ValidationError", memory_text_keys, "the models accept a text",
        )
        self.env = Fault(
            "env-replies", "five replies have no `req_id` in their models, so the client drops it and waits for a reply that has come",
            "TimeoutError", env_reply_ids, "the models have the field",
        )
        self.env_push = Fault(
            "push-names",
            "the client looks handlers of pushes up by `str(type)`, which is the name of the member where the model has an enumeration as type",
            None, self.push_names, "a handler is registered under that name too",
        )
        self.proc_output = Fault(
            "output-after-reply",
            "`spawn` calls `on_output` for events before its reply alone; output comes after it, and is a push to the client (see `push-names`)",
            None, self.push_output, "`on_output` is registered as a handler of `proc/read/event` too",
        )
        self.subagents = Fault(
            "subagent-transport",
            "`SubagentClient` awaits the reply of `transport.send(model)`; no transport of the SDK takes models or has replies to await",
            "TypeError", None, "a transport that sends the model as JSON and awaits the reply of its type",
        )
        self.client = client

    def push_names(self, changes):
        register = A2EClient.register_push_handler
        members = (*ProcType, *env_models.MessageType)

        def by_both(client, kind, callback):
            register(client, kind, callback)
            for name in {str(member) for member in members if member.value == kind} - {kind}:
                register(client, name, callback)

        changes.set(A2EClient, "register_push_handler", by_both)

    def push_output(self, changes):
        """The callbacks that `spawn` stores and nothing reads are called for pushes."""
        self.push_names(changes)
        spawn = ProcsAPI.spawn

        def heard(api, *args, **kwargs):
            callback = kwargs.get("on_output")
            if callback is not None:
                api._c.register_push_handler("proc/read/event", callback)
            return spawn(api, *args, **kwargs)

        changes.set(ProcsAPI, "spawn", heard)


class AwaitingTransport:
    """What `SubagentClient` needs: `send` of a model gives its reply. Its models have no ids, so a reply is matched by its type."""

    # The answers to these two are events.
    EVENTS = {"SUBAGENT_CANCEL_REQ": "SUBAGENT_EVENT", "SUBAGENT_TERMINATE_REQ": "SUBAGENT_EVENT"}

    def __init__(self, client, transport, recorder):
        self._client, self._transport, self._recorder = client, transport, recorder
        self._models = {
            model.model_fields["type"].default.value: model for model in vars(subagent_models).values()
            if isinstance(model, type) and issubclass(model, subagent_models.BaseMessage) and model.model_fields["type"].default
            and hasattr(model.model_fields["type"].default, "value")
        }

    async def send(self, request):
        wanted = self.EVENTS.get(request.type.value, request.type.value.replace("_REQ", "_RESP"))
        replies = asyncio.Queue()
        loop = asyncio.get_running_loop()
        heard = lambda message: loop.call_soon_threadsafe(replies.put_nowait, message)
        raw = self._client.decode

        def decode(line):
            data = json.loads(line)
            if data.get("type") in (wanted, "error") and data.get("req_id") == "":
                heard(data)
            return raw(line)

        self._client.decode = decode
        try:
            self._transport.send(request.model_dump_json())
            reply = await asyncio.wait_for(replies.get(), PATIENCE_S)
        finally:
            del self._client.decode
        if reply["type"] == "error":
            raise ConnectionError(f"{reply['code']}: {reply['message']}")
        return self._models[wanted].model_validate(reply)
