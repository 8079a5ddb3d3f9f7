"""
Runs one environment of Gymnasium for a Handfast host: one JSON object per line on stdin, one reply per line on stdout.

Started by src/capabilities/env/bridge/process.ts, which bounds every wait and ends this process with the host. Needs nothing
but gymnasium (1.x). What an environment prints goes to stderr, so that it cannot be taken for a reply.

Requests are {"id", "op", ...}; replies {"id", "ok": {...}} or {"id", "error": {"kind", "message"}}.
"""
import base64
import json
import math
import os
import sys

import numpy as np

INFINITIES = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


def wire(value):
    """A value as JSON can carry it: arrays nested, infinities and NaN as texts."""
    if isinstance(value, np.ndarray):
        return wire(value.tolist())
    if isinstance(value, np.generic):
        return wire(value.item())
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, (list, tuple)):
        return [wire(item) for item in value]
    if isinstance(value, dict):
        return {str(name): wire(item) for name, item in value.items()}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if hasattr(value, "_asdict"):
        return wire(value._asdict())
    return str(value)


def number(value):
    return INFINITIES[value] if isinstance(value, str) else value


def numbers(value):
    return [numbers(item) for item in value] if isinstance(value, list) else number(value)


def unsupported(space):
    return ValueError(f"the space {type(space).__name__} has no form on the wire")


def describe(space):
    """A space as `env/space/resp` has it."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.Box):
        low, high = wire(space.low), wire(space.high)
        return {"type": "Box", "low": low, "high": high, "shape": list(space.shape), "dtype": space.dtype.name}
    if isinstance(space, spaces.MultiDiscrete):
        start = getattr(space, "start", None)
        extra = {} if start is None or not np.any(start) else {"start": wire(start)}
        return {"type": "MultiDiscrete", "nvec": wire(space.nvec), **extra, "dtype": space.dtype.name}
    if isinstance(space, spaces.MultiBinary):
        return {"type": "MultiBinary", "n": wire(list(space.n) if isinstance(space.n, tuple) else space.n)}
    if isinstance(space, spaces.Text):
        charset = "".join(sorted(space.character_set))
        return {"type": "Text", "min_length": space.min_length, "max_length": space.max_length, "charset": charset}
    if isinstance(space, spaces.Tuple):
        return {"type": "Tuple", "spaces": [describe(part) for part in space.spaces]}
    if isinstance(space, spaces.OneOf):
        return {"type": "OneOf", "spaces": [describe(part) for part in space.spaces]}
    if isinstance(space, spaces.Dict):
        return {"type": "Dict", "spaces": {str(name): describe(part) for name, part in space.spaces.items()}}
    if isinstance(space, spaces.Sequence):
        return {"type": "Sequence", "space": describe(space.feature_space), "stack": bool(space.stack)}
    if isinstance(space, spaces.Graph):
        edges = None if space.edge_space is None else describe(space.edge_space)
        return {"type": "Graph", "node_space": describe(space.node_space), "edge_space": edges}
    raise unsupported(space)


def from_wire(space, value):
    """The value of a space that a JSON value stands for; the host has checked that it is one."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return space.dtype.type(value)
    if isinstance(space, (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)):
        return np.array(numbers(value), dtype=space.dtype).reshape(space.shape)
    if isinstance(space, spaces.Text):
        return value
    if isinstance(space, spaces.Tuple):
        return tuple(from_wire(part, item) for part, item in zip(space.spaces, value))
    if isinstance(space, spaces.OneOf):
        return (np.int64(value[0]), from_wire(space.spaces[value[0]], value[1]))
    if isinstance(space, spaces.Dict):
        return {name: from_wire(part, value[name]) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Sequence) and not space.stack:
        return tuple(from_wire(space.feature_space, item) for item in value)
    raise unsupported(space)


def render_modes(entry_point):
    """The modes of the class behind a registered id; none where it is not a class."""
    from gymnasium.envs.registration import load_env_creator

    made = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    return (getattr(made, "metadata", None) or {}).get("render_modes", [])


class Bridge:
    def __init__(self):
        self.env = None

    def maker(self, request):
        """A function that makes the environment; its keyword arguments are below those of the request."""
        import gymnasium

        module = request.get("module")
        if module:
            __import__(module)
        options = request.get("options") or {}
        # The checker of Gymnasium would warn on every start; `handfast env check` is its place.
        return lambda **more: gymnasium.make(request["name"], disable_env_checker=True, **{**more, **options})

    def make(self, request):
        import gymnasium

        make = self.maker(request)
        name = request["name"]
        options = dict(request.get("options") or {})
        modes = render_modes(gymnasium.spec(name).entry_point)
        mode = next((each for each in ("rgb_array", "ansi") if each in modes), None)
        if mode is not None:
            options.setdefault("render_mode", mode)
        self.env = make(**options)
        return {
            "action_space": describe(self.env.action_space),
            "observation_space": describe(self.env.observation_space),
            "render_mode": options.get("render_mode"),
        }

    def reset(self, request):
        observation, info = self.env.reset(seed=request.get("seed"), options=request.get("options") or None)
        return {"observation": wire(observation), "info": wire(info)}

    def step(self, request):
        action = from_wire(self.env.action_space, request["action"])
        observation, reward, terminated, truncated, info = self.env.step(action)
        return {
            "observation": wire(observation),
            "reward": wire(float(reward)),
            "terminated": bool(terminated),
            "truncated": bool(truncated),
            "info": wire(info),
        }

    def render(self, request):
        picture = self.env.render()
        if isinstance(picture, str):
            return {"text": picture}
        rows = np.ascontiguousarray(np.asarray(picture, dtype=np.uint8)[:, :, :3])
        return {"width": rows.shape[1], "height": rows.shape[0], "pixels": base64.b64encode(rows.tobytes()).decode("ascii")}

    def generator(self, request):
        """The state of the generator; a text, because its integers have 128 bits."""
        return {"state": json.dumps(self.env.unwrapped.np_random.bit_generator.state)}

    def continue_from(self, request):
        state = json.loads(request["state"])
        bits = getattr(np.random, state["bit_generator"])()
        bits.state = state
        self.env.unwrapped.np_random = np.random.Generator(bits)
        return {}

    def check(self, request):
        """What an environment does wrong, in an environment of its own for each rollout."""
        from gym_check import check

        return check(self.maker(request), request["seed"], request["steps"])

    def trace(self, request):
        from gym_check import trace

        return trace(self.maker(request), request["seed"], request["steps"])


def main():
    # Replies have a pipe of their own: prints of an environment must not reach the host as replies.
    replies = os.fdopen(os.dup(1), "w", encoding="ascii", newline="\n")
    os.dup2(2, 1)
    bridge = Bridge()
    for line in sys.stdin:
        request = json.loads(line)
        reply = {"id": request["id"]}
        try:
            operation = {"make": bridge.make, "reset": bridge.reset, "step": bridge.step, "render": bridge.render,
                         "generator": bridge.generator, "continue": bridge.continue_from, "check": bridge.check,
                         "trace": bridge.trace}[request["op"]]
            reply["ok"] = operation(request)
        except Exception as error:
            reply["error"] = {"kind": type(error).__name__, "message": str(error)[:2000]}
        replies.write(json.dumps(reply, allow_nan=False) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
