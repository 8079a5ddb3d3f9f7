"""
An agent built on the A2E Python SDK, driven through the SDK's public client API only.

Usage: python-agent.py SCENARIO '["stdio", "program", "arg", ...]' | '["http", "http://127.0.0.1:1234"]'

Prints one JSON object per step: {"step", "ok", "ms"} with "value", or "error", "message" and what the SDK's exception
carries. The tests in this folder decide what is right; this program only tells what happened.
"""
import json
import logging
import sys
import threading
import time

from a2e.caps.base.protocol import A2EMessage
from a2e.caps.memory.client import MemoryAPI
from a2e.caps.tools.client import ToolAPI
from a2e.core.client.client import A2EClient
from a2e.core.transports.http import HTTPTransport
from a2e.core.transports.subprocess import SubprocessTransport

# Warnings of the SDK go to stderr, where the tests look for them.
logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
logger = logging.getLogger("python-agent")

TEXT = "été 東京 😀 \u2028\u2029\u0085\u007f \\ \" \t"


def step(name, action):
    """Runs one step and prints what came of it."""
    begun = time.monotonic()
    record = {"step": name, "ok": True}
    try:
        record["value"] = action()
    except Exception as error:  # every outcome is a result here
        record.update(ok=False, error=type(error).__name__, message=str(error))
        for field in ("code", "retryable", "detail", "capability_name", "req_id"):
            if hasattr(error, field):
                record[field] = getattr(error, field)
        record["events"] = [event.model_dump(mode="json") for event in getattr(error, "events", [])]
    record["ms"] = round((time.monotonic() - begun) * 1000)
    print(json.dumps(record), flush=True)
    return record["ok"]


def transport_of(target):
    if target[0] == "stdio":
        return SubprocessTransport(command=target[1:], logger=logger)
    return HTTPTransport(base_url=target[1], logger=logger)


def client_of(target, caps, token=""):
    return A2EClient(
        transport=transport_of(target), logger=logger, agent_id="python-agent", auth_token=token, agent_caps=caps
    )


def granted(client):
    return [capability.model_dump(mode="json") for capability in client.capabilities()]


def listed(tools, **filters):
    return [tool.name for tool in tools.list(**filters)]


def called(tools, name, arguments, **options):
    events = []
    answer = tools.call(name, arguments, on_event=lambda event: events.append(event.model_dump(mode="json")), **options)
    return {"result": answer.model_dump(mode="json"), "events": events}


def at_once(tools, count):
    """Makes `count` calls from as many threads; returns the answers in the order of the callers."""
    answers = [None] * count

    def call(at):
        answers[at] = tools.call("echo", {"value": {"at": at}}, streaming=False).data

    threads = [threading.Thread(target=call, args=(at,)) for at in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


def session(target, token):
    client = client_of(target, ["tools", "memory", "streaming"], token)
    if not step("connect", client.connect):
        return
    tools = ToolAPI(client)
    step("capabilities", lambda: granted(client))
    step("list", lambda: [tool.model_dump(mode="json") for tool in tools.list()])
    step("list by tag", lambda: listed(tools, tags=["text", "social"]))
    step("list all", lambda: listed(tools, include_deferred=True))
    step("search", lambda: listed(tools, query="GREETS"))
    step("search deferred", lambda: listed(tools, query="rare", include_deferred=True))
    step("call", lambda: called(tools, "greet", {"name": TEXT, "options": {"times": 2}}))
    step("call with events", lambda: called(tools, "steps", {}))
    step("call without events", lambda: called(tools, "steps", {}, streaming=False))
    step("call with exit code", lambda: called(tools, "exit", {}))
    step("call with a long text", lambda: called(tools, "echo", {"value": TEXT * 5_000})["result"]["data"])
    step("argument missing", lambda: called(tools, "greet", {}))
    step("argument of the wrong type", lambda: called(tools, "greet", {"name": 7}))
    step("unknown tool", lambda: called(tools, "nonesuch", {}))
    step("failing tool", lambda: called(tools, "breaks", {}))
    step("timeout", lambda: called(tools, "nap", {"ms": 20_000}, timeout=1))
    step("capability not granted", lambda: MemoryAPI(client).init())
    step("capability not asked for", lambda: client.rpc(A2EMessage(type="proc/status/req"), timeout=5).type)
    step("unknown type", lambda: client.rpc(A2EMessage(type="no/such/req"), timeout=5).type)
    step("field missing", lambda: client.rpc(A2EMessage(type="tool/call/req"), timeout=5).type)
    # Whatever the binding, garbage must not end the SDK's transport: what follows uses the same one.
    step("garbage", lambda: client._transport.send("{this is not JSON"))
    step("garbage without an object", lambda: client._transport.send("[1, 2]"))
    step("garbage too long", lambda: client._transport.send("x" * 3_000_000))
    step("alive", client._transport.alive)
    step("call after garbage", lambda: called(tools, "echo", {"value": "still here"})["result"]["data"])
    step("ping", lambda: client.ping())
    step("parallel", lambda: at_once(tools, 16))
    step("shutdown", client.disconnect)
    child = getattr(client._transport, "_proc", None)
    step("exit code", lambda: child.poll() if child else None)


def defaults(target, token):
    """What a program gets that names no capabilities: the SDK then asks for "streaming" and "artifacts"."""
    client = client_of(target, None, token)
    if not step("connect", client.connect):
        return
    step("capabilities", lambda: granted(client))
    step("list", lambda: listed(ToolAPI(client)))
    step("ping", lambda: client.ping())
    step("shutdown", client.disconnect)


def refused(target, token):
    """Handshakes that must fail, and how long the agent waits to learn it."""
    attempts = [("wrong token", ["tools"], "wrong"), ("no token", ["tools"], ""), ("no_caps", ["memory"], token)]
    for name, caps, sent in attempts:
        client = client_of(target, caps, sent)
        step(name, client.connect)
        client.disconnect()


def files(target, token):
    """A host somebody else configured: what it lists, and a file read with one of its tools."""
    client = client_of(target, ["tools"], token)
    if not step("connect", client.connect):
        return
    tools = ToolAPI(client)
    step("list", lambda: listed(tools))
    step("read", lambda: called(tools, "read_file", {"path": "note.txt"})["result"])
    step("outside", lambda: called(tools, "read_file", {"path": "../secret.txt"})["result"])
    step("shutdown", client.disconnect)


def cut(target, token):
    """A call before and a call after its connections were cut, which happens when a line comes on stdin."""
    client = client_of(target, ["tools"], token)
    if not step("connect", client.connect):
        return
    tools = ToolAPI(client)
    step("before", lambda: called(tools, "echo", {"value": {"at": 1}})["result"]["data"])
    sys.stdin.readline()
    step("after", lambda: called(tools, "echo", {"value": {"at": 2}}, timeout=20)["result"]["data"])
    step("shutdown", client.disconnect)


if __name__ == "__main__":
    scenarios = {"session": session, "defaults": defaults, "refused": refused, "files": files, "cut": cut}
    scenarios[sys.argv[1]](json.loads(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "")
