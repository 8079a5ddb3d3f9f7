"""
What the client of the A2E Python SDK offers, found by introspection, and which of it a program has called.

`calls()` lists every public call: of the client, of the clients of capabilities and of the transports, with every parameter. `watch()` puts a
recorder around all of them. It notes the calls that the program makes itself, not those that the SDK makes inside of them, with the
parameters that were given a value of their own. So a call or a parameter that a later SDK adds is one that nothing here has made.
"""
import functools
import importlib
import inspect
import json
import pkgutil
import threading

import a2e.caps
import a2e.core.transports
from pydantic import BaseModel

# Those of Python itself that belong to the calls of a class.
SPECIAL = ("__init__", "__enter__", "__exit__")

# How deep inside of calls of the SDK a thread is.
_inside = threading.local()


def _modules():
    yield importlib.import_module("a2e.core.client.client")
    yield a2e.core.transports
    for package, ending in ((a2e.core.transports, ""), (a2e.caps, ".client")):
        for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if found.name.endswith(ending):
                yield importlib.import_module(found.name)


def _public(module, kind):
    """The public classes or functions that a module defines itself."""
    for name, value in vars(module).items():
        if kind(value) and value.__module__ == module.__name__ and not name.startswith("_"):
            yield name, value


def classes():
    """Every class whose objects send something: models and exceptions are no calls, and what is abstract cannot be made."""
    for module in _modules():
        for _, found in _public(module, inspect.isclass):
            if not issubclass(found, (BaseModel, BaseException)) and not inspect.isabstract(found):
                yield found


def functions():
    for module in _modules():
        for name, found in _public(module, inspect.isfunction):
            yield module, name, found


def _members(owner):
    for name in dir(owner):
        if name.startswith("_") and name not in SPECIAL:
            continue
        member = inspect.getattr_static(owner, name)
        if isinstance(member, property):
            yield name, member
        elif inspect.isfunction(member):
            yield name, member


def _parameters(function):
    kinds = inspect.Parameter
    signature = inspect.signature(function)
    return [
        parameter.name for parameter in list(signature.parameters.values())
        if parameter.name != "self" and parameter.kind is not kinds.VAR_POSITIONAL
    ]


def calls():
    """Call → its parameters. A call is `Class.method`, or `function`."""
    found = {}
    for owner in classes():
        for name, member in _members(owner):
            found[f"{owner.__name__}.{name}"] = [] if isinstance(member, property) else _parameters(member)
    for _, name, function in functions():
        found[name] = _parameters(function)
    return found


def requests():
    """Type of message → whether a call of the SDK sends it, for every request that has a model and, as the model says, comes from agents."""
    used = {value for module in _modules() for value in vars(module).values() if inspect.isclass(value)}
    found = {}
    for module in pkgutil.walk_packages(a2e.caps.__path__, "a2e.caps."):
        if not module.name.endswith(".protocol"):
            continue
        for name, model in _public(importlib.import_module(module.name), inspect.isclass):
            if not name.endswith(("Request", "Req")) and name not in ("Ping", "Shutdown"):
                continue
            if "Host → Agent" in (model.__doc__ or ""):
                continue
            kind = model.model_fields["type"].default
            found[getattr(kind, "value", kind)] = model in used
    return found


class Recorder:
    """What was called, sent and received, since it was last emptied."""

    def __init__(self):
        self.empty()
        # Call → the parameters that were given a value of their own, and type of message → the outermost calls that sent it; of all time.
        self.made = {}
        self.senders = {}

    def empty(self):
        self.calls, self.sent, self.received = [], [], []

    def call(self, name, parameters):
        self.calls.append(name)
        self.made.setdefault(name, set()).update(parameters)

    def message(self, line):
        kind = json.loads(line).get("type") if isinstance(line, str) and line.startswith("{") else None
        if isinstance(kind, str):
            self.sent.append(kind)
            outermost = getattr(_inside, "outermost", "") or "Transport"
            self.senders.setdefault(kind, set()).add(outermost)


def _given(function, args, kwargs):
    """The parameters that were given a value other than their default."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return set()
    return {
        name for name, value in bound.arguments.items()
        if value is not signature.parameters[name].default and value != signature.parameters[name].default
    }


def _wrapped(recorder, call, function):
    is_send = call.split(".")[-1] == "send" and "Transport" in call

    def enter(args, kwargs):
        depth = getattr(_inside, "depth", 0)
        if depth == 0:
            _inside.outermost = call
            recorder.call(call, _given(function, args, kwargs))
        if is_send and len(args) > 1:
            recorder.message(args[1])
        _inside.depth = depth + 1

    def leave():
        _inside.depth -= 1
        if _inside.depth == 0:
            _inside.outermost = ""

    if inspect.iscoroutinefunction(function):
        @functools.wraps(function)
        async def later(*args, **kwargs):
            enter(args, kwargs)
            try:
                return await function(*args, **kwargs)
            finally:
                leave()
        return later

    if inspect.isgeneratorfunction(function):
        # Its body runs when the program takes items.
        @functools.wraps(function)
        def items(*args, **kwargs):
            enter(args, kwargs)
            leave()
            return function(*args, **kwargs)
        return items

    @functools.wraps(function)
    def now(*args, **kwargs):
        enter(args, kwargs)
        try:
            return function(*args, **kwargs)
        finally:
            leave()
    return now


def watch():
    """Puts a recorder around every call and returns it. Handlers of messages run inside of the SDK, so what they call counts as theirs."""
    recorder = Recorder()
    for owner in list(classes()):
        for name, member in list(_members(owner)):
            call = f"{owner.__name__}.{name}"
            if isinstance(member, property):
                setattr(owner, name, property(_wrapped(recorder, call, member.fget)))
            else:
                setattr(owner, name, _wrapped(recorder, call, member))
    for module, name, function in list(functions()):
        setattr(module, name, _wrapped(recorder, name, function))
    from a2e.core.client.client import A2EClient
    decode = A2EClient._on_message

    def on_message(self, raw):
        try:
            recorder.received.append(json.loads(raw).get("type"))
        except (ValueError, AttributeError):
            pass
        return decode(self, raw)

    A2EClient._on_message = on_message
    return recorder
