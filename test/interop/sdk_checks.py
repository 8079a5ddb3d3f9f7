"""
How a call of the A2E Python SDK is checked: it is made, its result is judged, and both are noted with what was sent and received for it.

A call that cannot work in the SDK as it is has a `Fault`: it is made as it is first, which must fail in the way the fault names, and then
with the smallest change to the SDK that lets it through, which is undone afterwards.
"""
import asyncio
import inspect
import logging
import os
import time
import traceback

import a2e

# Far above what any call takes.
PATIENCE_S = 40
# How long a reply is awaited that the SDK has received and cannot match.
LOST_S = 2
SDK = os.path.dirname(os.path.abspath(a2e.__file__))


def plain(value):
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def wait_for(ready):
    """Waits until something holds; returns what it was."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := ready()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return value


class Fault:
    """
    Something that the SDK's client does wrong by itself: `reason` says what, `raises` names the error of the call as it is (None: it gives
    a wrong value), and `mend` changes the SDK until the object it returns is closed.
    """

    def __init__(self, name, reason, raises, mend, remedy):
        self.name, self.reason, self.raises, self.mend, self.remedy = name, reason, raises, mend, remedy


class Changes:
    """Changes of attributes and dictionaries that are undone together."""

    def __init__(self):
        self._undo = []

    def set(self, owner, name, value):
        before = vars(owner).get(name, self)

        def undo():
            if before is self:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        self._undo.append(undo)
        setattr(owner, name, value)

    def types(self, client, types):
        before = dict(client._type_registry)
        self._undo.append(lambda: (client._type_registry.clear(), client._type_registry.update(before)))
        client.update_msg_types(types)

    def close(self):
        for undo in reversed(self._undo):
            undo()


class Checks:
    def __init__(self, recorder):
        self.recorder = recorder
        self.rows = []
        self.faults = {}
        # True while a call is made as it is that will fail.
        self.trying = False

    @property
    def patience(self):
        """Seconds for a reply: few while it is known that the SDK cannot match it."""
        return LOST_S if self.trying else PATIENCE_S

    def check(self, call, what, action, right, fault=None):
        """
        Makes a call and judges what it returned. `call` is the call that must be among those made; `right` gets the value, or the
        exception when it takes `error`. With a fault the call is made as it is first.
        """
        row = {"call": call, "what": what, "outcome": "ok", "fault": "", "note": ""}
        self.rows.append(row)
        self.recorder.empty()
        changes = Changes()
        try:
            if fault is not None:
                value = self._as_it_is(fault, call, action, right)
                if value is not None:
                    return value
                row["fault"] = fault.name
                self.recorder.empty()
                fault.mend(changes)
            value = self._made(action)
            self._judged(call, right, value)
            return value
        except Exception as error:  # every outcome is a result here
            trace = "".join(traceback.format_exception(error)[-3:])
            row.update(outcome="failed", note=f"{trace} sent {self.recorder.sent} received {self.recorder.received}")
            return None
        finally:
            changes.close()

    def refused(self, call, what, action, code):
        """A call that the host refuses: the SDK raises its own error with the code."""

        def raised():
            try:
                return {"returned": plain(action())}
            except Exception as error:  # noqa: the code decides
                return {"error": type(error).__name__, "code": getattr(error, "code", str(error))}

        self.check(call, what, raised, lambda value: value.get("code") == code)

    def _made(self, action):
        value = action()
        return asyncio.run(value) if inspect.iscoroutine(value) else value

    def _judged(self, call, right, value):
        if call not in self.recorder.calls:
            raise AssertionError(f"{call} was not called, but {self.recorder.calls}")
        if not right(value):
            raise AssertionError(f"unexpected: {plain(value)!r}")

    def _as_it_is(self, fault, call, action, right):
        """Makes the call of a fault as it is: its value when that is right, None when it fails as expected. Else raises."""
        seen = self.faults.setdefault(fault.name, {
            "reason": fault.reason, "remedy": fault.remedy, "calls": [], "error": "", "sent": [], "received": [],
        })
        self.trying = True
        try:
            value = self._made(action)
            self._judged(call, right, value)
        except Exception as error:  # what it is decides
            if isinstance(error, TimeoutError):
                wait_for(lambda: self.recorder.received)
            kind = type(error).__name__ if not isinstance(error, AssertionError) else None
            if kind != fault.raises:
                raise
            if call not in seen["calls"]:
                seen["calls"].append(call)
            frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(SDK)]
            files = [os.path.relpath(frame.filename, SDK) for frame in frames if "sdk_" not in frame.filename]
            seen["error"] = seen["error"] or (f"{kind} in {files[-1]}" if kind and files else "")
            seen["sent"] = seen["sent"] or list(dict.fromkeys(self.recorder.sent))
            seen["received"] = seen["received"] or list(dict.fromkeys(self.recorder.received))
            return None
        finally:
            self.trying = False
        return value


logging.basicConfig(level=logging.ERROR)
logger = logging.getLogger("python-whole")
