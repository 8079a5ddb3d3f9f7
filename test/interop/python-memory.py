"""
The memory API of the A2E Python SDK against our host, through its public calls only, and by raw message where they cannot work.

Usage: python-memory.py '["stdio", "program", "arg", ...]'

Prints one JSON object: what each call returned.
"""
import json
import logging
import sys
import time

from a2e.caps.memory import MemoryEntry, MemoryStoreRequest, MemoryRetrieveRequest
from a2e.caps.memory.client import MemoryAPI
from a2e.core.client.client import A2EClient
from a2e.core.transports.subprocess import SubprocessTransport

logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
logger = logging.getLogger("python-memory")

target = json.loads(sys.argv[1])
client = A2EClient(
    transport=SubprocessTransport(command=target[1:], logger=logger),
    logger=logger, agent_id="python-agent", auth_token="", agent_caps=["memory"],
)
results = {}


def plain(value):
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def attempt(name, action):
    try:
        results[name] = plain(action())
    except Exception as error:  # every outcome is a result here
        results[name] = {"failed": type(error).__name__, "code": getattr(error, "code", ""), "message": str(error)}


client.connect()
memory = MemoryAPI(client)
attempt("init", lambda: memory.init(namespace="python", scope={"user": "u1"}))
attempt("store", lambda: memory.store([
    MemoryEntry(key={"topic": "city"}, content="Ada lives in Lisbon", tier="episodic", tags=["profile"], source="turn-1"),
    MemoryEntry(key={"topic": "prefs"}, content={"lang": "en", "tone": "dry"}, tier="semantic", tags=["profile", "ui"], score=0.9),
]))
attempt("bad entry", lambda: memory.store([
    {"key": {"a": 1}, "content": 1, "tier": "episodic", "ttl": -1}, {"key": {"b": 1}, "content": 2, "tier": "episodic"},
]))
attempt("by key", lambda: memory.retrieve(keys=[{"topic": "city"}]))
attempt("search", lambda: memory.retrieve(query="where does Ada live", limit=1))
attempt("by tag", lambda: memory.retrieve(tags=["ui"]))
attempt("tier", lambda: memory.retrieve(tier="semantic"))
attempt("forget", lambda: memory.forget(keys=[{"topic": "city"}]))
attempt("after", lambda: memory.retrieve(keys=[{"topic": "city"}]))
attempt("remember", lambda: memory.remember("plain", "text", "episodic"))
# What the SDK's helpers cannot send, sent as the messages they stand for.
attempt("raw remember", lambda: client.rpc(MemoryStoreRequest.model_construct(
    memory_id=memory.memory_id, entries=[{"key": "plain", "content": "text", "tier": "episodic"}])).stored)
attempt("raw recall", lambda: client.rpc(MemoryRetrieveRequest(memory_id=memory.memory_id, keys=[{"key": "plain"}])).entries)
attempt("unknown", lambda: client.rpc(MemoryRetrieveRequest(memory_id="mem-unknown")))
print(json.dumps(results), flush=True)
client.disconnect()
