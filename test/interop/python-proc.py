"""
The proc API of the A2E Python SDK against our host: through its public calls, and by its own messages where these cannot.

Usage: python-proc.py '["stdio", "program", "arg", ...]'

Prints one JSON object: what each call returned.
"""
import json
import threading

from a2e.caps.proc.client import ProcsAPI
from a2e.caps.proc.protocol import MessageType, ProcSpawnRequest, ProcWriteRequest
from sdk_agent import attempt, client_of, results

client = client_of("python-proc", ["proc"])
# What was pushed, by process, and which of them have ended.
pushed = {}
changed = threading.Condition()
# Far above what any step takes.
PATIENCE_S = 30


def on_push(event):
    with changed:
        pushed.setdefault(event.proc_id, []).append([event.stream_type, event.data])
        changed.notify_all()


def wait_for(proc_id, ready):
    """The events of a process, once `ready` holds for them."""
    with changed:
        changed.wait_for(lambda: ready(pushed.get(proc_id, [])), PATIENCE_S)
        return list(pushed.get(proc_id, []))


def has_ended(events):
    return any("code" in data for _, data in events)


client.connect()
procs = ProcsAPI(client)
# Its client knows the handlers of pushes by the name of the member, not by the type of the message.
client.register_push_handler(str(MessageType.PROC_READ_EVENT), on_push)

called = []
talks = attempt("spawn", lambda: procs.spawn(["cat"], env={"A": "1"}, on_output=called.append))
attempt("write", lambda: procs.write(talks["proc_id"], "one\ntwo\n"))
wait_for(talks["proc_id"], lambda events: len(events) >= 2)
attempt("running", lambda: procs.status(talks["proc_id"]))
attempt("write with eof", lambda: procs.write(talks["proc_id"], "three", eof=True))
results["output"] = wait_for(talks["proc_id"], has_ended)
results["calls of on_output"] = len(called)
attempt("completed", lambda: procs.status(talks["proc_id"]))
attempt("write to an ended one", lambda: client.rpc(ProcWriteRequest(proc_id=talks["proc_id"], data="late"), timeout=10))

# Its client drops events that come right behind the reply, so the program waits.
fails = attempt("spawn one that fails", lambda: procs.spawn(["sh", "-c", "read line; echo oops >&2; exit 3"]))
procs.write(fails["proc_id"], "now\n")
results["output of one that fails"] = wait_for(fails["proc_id"], has_ended)
attempt("failed", lambda: procs.status(fails["proc_id"]))

stays = attempt("spawn one that stays", lambda: procs.spawn(["sleep", "600"]))
attempt("kill", lambda: procs.kill(stays["proc_id"]))
results["output of the killed one"] = wait_for(stays["proc_id"], has_ended)
attempt("killed", lambda: procs.status(stays["proc_id"]))
attempt("kill again", lambda: procs.kill(stays["proc_id"]))

limited = attempt("spawn with a time limit", lambda: client.rpc(ProcSpawnRequest(cmd=["sleep", "600"], timeout=1), timeout=10))
wait_for(limited["proc_id"], has_ended)
attempt("timed out", lambda: procs.status(limited["proc_id"]))

attempt("all", lambda: procs.status())
attempt("denied", lambda: procs.spawn(["python3"]))
attempt("empty", lambda: procs.spawn([]))
attempt("outside", lambda: procs.spawn(["cat"], cwd="/"))
attempt("unknown", lambda: procs.status("nothing"))
attempt("kill of nothing", lambda: procs.kill("nothing"))
print(json.dumps(results), flush=True)
client.disconnect()
