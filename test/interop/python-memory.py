"""
The memory API of the A2E Python SDK against our host, through its public calls only, and by raw message where they cannot work.

Usage: python-memory.py '["stdio", "program", "arg", ...]'

Prints one JSON object: what each call returned.
"""
import json
import time

from a2e.caps.memory import MemoryEntry, MemoryStoreRequest, MemoryRetrieveRequest
from a2e.caps.memory.client import MemoryAPI
from sdk_agent import attempt, client_of, plain, results

client = client_of("python-memory", ["memory"])
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
