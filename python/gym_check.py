"""
Checks an environment of Gymnasium for `handfast env check`: plays it several times with one seed and compares, and looks at
everything it returns, before it becomes JSON. Loaded by gym_bridge.py for the operations "check" and "trace".

The rules are those of src/capabilities/env/check/findings.ts. Beside Gymnasium's own checker (`gymnasium.utils.env_checker`) it
plays whole episodes, remembers what was returned for many steps, and compares with a second environment and a second process.
"""
import copy
import hashlib
import inspect
import math
import warnings

import numpy as np

REMEMBERED = 64
RENDER_EVERY = 5
MAX_TEXT = 200
WRITTEN = 77


def text(value):
    """A value as text, whole: equal texts are equal values. Types are in it: np.float32(1) is not 1.0."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return f"array({[text(item) for item in value.flat]}, shape={value.shape}, dtype=object)"
        return f"array({value.tolist()}, shape={value.shape}, dtype={value.dtype})"
    if isinstance(value, np.generic):
        return f"{type(value).__name__}({value.item()!r})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name!r}: {text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(text(item) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    if isinstance(value, (bool, int, float, str, bytes, set, frozenset, type(None))):
        return repr(value)
    members = getattr(value, "__dict__", None)
    return f"{type(value).__name__}({text(members) if members else ''})"


def short(value):
    found = value if isinstance(value, str) else text(value)
    return found if len(found) <= MAX_TEXT else found[:MAX_TEXT] + "…"


class Findings:
    """The first finding of each rule."""

    def __init__(self):
        self.by_rule = {}

    def add(self, rule, step, found):
        self.by_rule.setdefault(rule, {"rule": rule, "step": step, "found": short(found)})

    def has(self, *rules):
        return any(rule in self.by_rule for rule in rules)


class Broken(Exception):
    """The environment raised, or returned what cannot be played."""


def dtype_problem(space, value, path="observation"):
    """What of a value has another type than its space says; an element of the space may still have one."""
    from gymnasium import spaces

    if isinstance(space, (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)):
        if isinstance(value, (np.ndarray, np.generic)):
            return None if value.dtype == space.dtype else f"{path} has dtype {value.dtype}, its space {space.dtype}"
        return f"{path} is a {type(value).__name__}, not a numpy array" if space.shape != () else None
    if isinstance(space, spaces.Discrete):
        if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
            return None
        return f"{path} is a {type(value).__name__}, not an integer"
    if isinstance(space, spaces.Dict) and isinstance(value, dict):
        parts = ((space[name], value[name], f"{path}.{name}") for name in space.spaces if name in value)
    elif isinstance(space, spaces.Tuple) and isinstance(value, (tuple, list)):
        if not isinstance(value, tuple):
            return f"{path} is a list, not a tuple"
        parts = ((part, item, f"{path}[{at}]") for at, (part, item) in enumerate(zip(space.spaces, value)))
    else:
        return None
    return next((problem for problem in (dtype_problem(*part) for part in parts) if problem), None)


def mutables(value):
    """Everything in a value that can be changed in place: arrays, lists, dicts."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, dict):
        yield value
        for item in value.values():
            yield from mutables(item)
    elif isinstance(value, (list, tuple)):
        if isinstance(value, list):
            yield value
        for item in value:
            yield from mutables(item)


def shared(one, other):
    """True when two values have memory in common."""
    for a in mutables(one):
        for b in mutables(other):
            if a is b or (isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and np.shares_memory(a, b)):
                return True
    return False


def overwrite(value):
    """Writes into everything that can be written to."""
    if isinstance(value, np.ndarray):
        if value.flags.writeable and value.dtype.kind in "fiub":
            value[...] = WRITTEN if value.dtype.kind != "b" else True
    elif isinstance(value, dict):
        for name, item in list(value.items()):
            overwrite(item) if isinstance(item, (np.ndarray, dict, list, tuple)) else value.update({name: WRITTEN})
    elif isinstance(value, (list, tuple)):
        for at, item in enumerate(value):
            if isinstance(item, (np.ndarray, dict, list, tuple)):
                overwrite(item)
            elif isinstance(value, list):
                value[at] = WRITTEN


def is_number(value):
    kinds = (int, float, np.integer, np.floating)
    return isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)


class Checker:
    def __init__(self, make, seed, steps):
        self.make = make
        self.seed = seed
        self.steps = steps
        self.findings = Findings()
        self.made = []
        self.actions = {}

    def environment(self, **options):
        environment = self.make(**options).unwrapped
        self.made.append(environment)
        return environment

    def run(self):
        """Returns the findings, and the trace of the first rollout where another process must have the same."""
        trace = []
        try:
            first = self.environment()
            self.signature(first)
            self.spaces(first)
            trace = self.first(first)
            self.generator(first)
            if not getattr(first.spec, "nondeterministic", False):
                self.compare(first, trace)
                self.render(first, trace)
            else:
                trace = []
        except Broken:
            pass
        self.close()
        return list(self.findings.by_rule.values()), trace

    def signature(self, env):
        """Seed and options as reset must take them."""
        parameters = inspect.signature(env.reset).parameters
        any_keyword = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
        for name, rule in (("seed", "seed-argument"), ("options", "options-argument")):
            parameter = parameters.get(name)
            if parameter is None and not any_keyword:
                self.findings.add(rule, None, f"reset({', '.join(parameters)}) has no {name}")
            elif parameter is not None and parameter.default is not None:
                self.findings.add(rule, None, f"reset has {name}={parameter.default!r}")
        if self.findings.has("seed-argument", "options-argument"):
            missing = [name for name in ("seed", "options") if name not in parameters and not any_keyword]
            if missing:
                raise Broken

    def spaces(self, env):
        import gymnasium

        for name in ("action_space", "observation_space"):
            space = getattr(env, name, None)
            if not isinstance(space, gymnasium.Space):
                self.findings.add("spaces", None, f"{name} is {short(space)}")
                raise Broken
            problem = space_problem(space)
            if problem:
                self.findings.add("spaces", None, f"{name}: {problem}")
                raise Broken

    def reset(self, env, at, seed):
        try:
            result = env.reset(seed=seed, options={})
        except Exception as error:
            self.findings.add("raises", at, f"reset(seed={seed}) raised {type(error).__name__}: {error}")
            raise Broken from error
        if not isinstance(result, tuple) or len(result) != 2:
            self.findings.add("result", at, f"reset returned {short(result)}")
            raise Broken
        return result

    def step(self, env, at, action):
        try:
            result = env.step(action)
        except Exception as error:
            self.findings.add("raises", at, f"step({short(action)}) raised {type(error).__name__}: {error}")
            raise Broken from error
        if not isinstance(result, tuple) or len(result) != 5:
            self.findings.add("result", at, f"step returned {len(result) if isinstance(result, tuple) else short(result)} values")
            raise Broken
        return result

    def rollout(self, env, action_of, on_move=None):
        """Resets with the seed, then steps; an episode that has ended is followed by a reset without a seed."""
        trace = []
        ended = True
        for at in range(self.steps + 1):
            # Episodes that do not end are reset, too.
            ended = ended or at == self.steps // 2
            if ended:
                observation, info = self.reset(env, at, self.seed if at == 0 else None)
                trace.append(["reset", text((observation, info))])
                result, action = (observation, info), None
                ended = False
            else:
                action = action_of(at)
                if action is None:
                    break
                result = self.step(env, at, action)
                observation, reward, terminated, truncated, info = result
                trace.append(["step", text(result)])
                ended = bool(terminated) or bool(truncated)
            if on_move is not None:
                on_move(at, action, result, observation, info)
        return trace

    def first(self, env):
        """Plays and looks at each result."""
        space = env.action_space
        space.seed(self.seed)
        remembered = []

        def action_of(at):
            self.actions[at] = space.sample()
            return copy.deepcopy(self.actions[at])

        def must_be_the_same():
            step, kept, before = remembered.pop(0)
            if text(kept) != before:
                self.findings.add("reuse", step, f"{short(before)} is {short(kept)} by now")

        def on_move(at, action, result, observation, info):
            self.look(env, at, result, observation, info)
            if action is not None and text(action) != text(self.actions[at]):
                self.findings.add("action-changed", at, f"{short(self.actions[at])} is {short(action)} afterwards")
            for step, kept, _ in remembered:
                if shared(kept, (observation, info)):
                    self.findings.add("reuse", step, f"steps {step} and {at} returned the same memory")
                    break
            remembered.append((at, (observation, info), text((observation, info))))
            if len(remembered) > REMEMBERED:
                must_be_the_same()

        trace = self.rollout(env, action_of, on_move)
        while remembered:
            must_be_the_same()
        return trace

    def look(self, env, at, result, observation, info):
        space = env.observation_space
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                inside = observation in space
        except Exception:
            inside = False
        problem = dtype_problem(space, observation)
        if not inside:
            self.findings.add("observation", at, f"{short(observation)} is not in {space}")
        elif problem:
            self.findings.add("dtype", at, problem)
        if not isinstance(info, dict):
            self.findings.add("info", at, f"info is a {type(info).__name__}: {short(info)}")
        if len(result) == 2:
            return
        _, reward, terminated, truncated, _ = result
        if not is_number(reward):
            self.findings.add("reward", at, f"{type(reward).__name__} {short(reward)}")
        if not isinstance(terminated, (bool, np.bool_)) or not isinstance(truncated, (bool, np.bool_)):
            self.findings.add("flags", at, f"terminated {short(terminated)}, truncated {short(truncated)}")

    def generator(self, env):
        """reset(seed) seeds np_random, and differently for different seeds."""
        states = []
        for seed in (self.seed, self.seed, self.seed + 1):
            self.reset(env, 0, seed)
            generator = env._np_random
            states.append(None if generator is None else text(generator.bit_generator.state))
        if states[0] is None:
            self.findings.add("seed-unused", 0, f"np_random has no state after reset(seed={self.seed})")
        elif states[0] == states[2]:
            self.findings.add("seed-unused", 0, f"np_random is the same after the seeds {self.seed} and {self.seed + 1}")
        elif states[0] != states[1]:
            self.findings.add("seed-unused", 0, f"np_random differs after reset(seed={self.seed}) twice")

    def compare(self, first, trace):
        """Plays again: in a fresh environment, in the one that played, and with a caller that writes into what it has."""
        again = lambda at: copy.deepcopy(self.actions.get(at))
        fresh = difference(trace, self.rollout(self.environment(), again))
        if fresh is not None:
            return self.findings.add(*fresh)
        used = difference(trace, self.rollout(first, again))
        if used is not None:
            return self.findings.add("leftover", used[1], used[2])
        if self.findings.has("reuse"):
            return None

        def write(at, action, result, observation, info):
            for part in (observation, info, action):
                overwrite(part)

        try:
            written = difference(trace, self.rollout(self.environment(), again, write))
        except Broken:
            written = (None, None, "it raises")
            self.findings.by_rule.pop("raises", None)
        if written is not None:
            self.findings.add("owned", written[1], f"after the caller wrote into what it had: {written[2]}")
        return None

    def render(self, env, trace):
        modes = [mode for mode in env.metadata.get("render_modes", []) if mode in ("rgb_array", "ansi")]
        for mode in modes:

            def draw(at, *_):
                if at % RENDER_EVERY == 0:
                    try:
                        problem = picture_problem(mode, drawn.render())
                    except Exception as error:
                        problem = f"raised {type(error).__name__}: {error}"
                    if problem:
                        self.findings.add("render", at, f"{mode} {problem}")

            drawn = self.environment(render_mode=mode)
            changed = difference(trace, self.rollout(drawn, lambda at: copy.deepcopy(self.actions.get(at)), draw))
            if changed is not None and not self.findings.has("same-seed", "next-reset", "same-steps"):
                self.findings.add("render-changes", changed[1], changed[2])

    def close(self):
        for count, env in enumerate(self.made):
            for which in ("close", "the second close"):
                try:
                    env.close()
                except Exception as error:
                    self.findings.add("close", None, f"{which} raised {type(error).__name__}: {error}")


def difference(before, after):
    """Rule, step and words of the first difference; None where there is none."""
    for at, (one, other) in enumerate(zip(before, after)):
        if one != other:
            rule = "same-steps" if one[0] == "step" else ("same-seed" if at == 0 else "next-reset")
            return rule, at, f"{short(one[1])}, then {short(other[1])}"
    return None


def space_problem(space):
    from gymnasium.utils.passive_env_checker import check_action_space

    try:
        check_action_space(space)
        samples = copy.deepcopy(space)
        samples.seed(0)
        for _ in range(20):
            sample = samples.sample()
            if sample not in samples:
                return f"does not contain its sample {short(sample)}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def picture_problem(mode, picture):
    if mode == "ansi":
        return None if isinstance(picture, str) else f"returned a {type(picture).__name__}"
    if not isinstance(picture, np.ndarray):
        return f"returned a {type(picture).__name__}"
    if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
        return f"returned an array of shape {picture.shape} and dtype {picture.dtype}"
    return None


def digests(trace):
    """A trace as its second process sends it: short, and comparable."""
    return [[kind, hashlib.sha256(shown.encode()).hexdigest()[:16]] for kind, shown in trace]


def gymnasium_verdict(make):
    """What Gymnasium's own checker says of a fresh environment."""
    from gymnasium.utils.env_checker import check_env

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        problem = None
        try:
            env = make().unwrapped
            check_env(env)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
    said = [str(warning.message).replace("\x1b[33mWARN: ", "").replace("\x1b[0m", "") for warning in caught]
    return {"problem": problem, "warnings": list(dict.fromkeys(said))}


def check(make, seed, steps):
    findings, trace = Checker(make, seed, steps).run()
    return {"findings": findings, "trace": digests(trace), "gymnasium": gymnasium_verdict(make)}


def trace(make, seed, steps):
    """The same rollout alone, for a second process."""
    checker = Checker(make, seed, steps)
    try:
        return {"trace": digests(checker.first(checker.environment()))}
    except Broken:
        return {"trace": []}
