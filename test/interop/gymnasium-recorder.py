"""Records what NumPy and Gymnasium do, for `test/capabilities/env` (small, checked in) and for the interop test (large, run).

    python gymnasium-recorder.py random|spaces > test/vectors/gymnasium/<word>.json
    python gymnasium-recorder.py episodes 3 40 > test/vectors/gymnasium/episodes.ndjson

`episodes COUNT [STEPS]` writes one line an episode, of at most STEPS steps: COUNT episodes of every variant below, in the order
they were played in one environment. An episode without seed continues the generator of the one before.
"""

import json
import math
import sys

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.toy_text.frozen_lake import generate_random_map

VERSIONS = {"numpy": np.__version__, "gymnasium": gym.__version__}


def plain(value):
    """A value as JSON: arrays as lists, numbers of NumPy as numbers, infinities and NaN as strings."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


# ---- random numbers -------------------------------------------------------------------------------------------------

SEEDS = [0, 1, 42, 2**32 - 1, 2**32, 123456789012345, 2**53 - 1]
SPANS = [1, 2, 3, 4, 7, 10, 255, 256, 1000, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 3 * 2**40 + 7, 2**53]


def random_vectors():
    def bits(seed):
        return np.random.PCG64(np.random.SeedSequence(seed))

    def drawn(seed, draw):
        return plain(draw(np.random.Generator(bits(seed))))

    rows = []
    for seed in SEEDS:
        generator = np.random.Generator(bits(seed))
        mixed = []
        for span in SPANS * 3:
            mixed.append([span, int(generator.integers(span)), generator.random()])
        after = bits(seed)
        np.random.Generator(after).integers(5)
        rows.append(
            {
                "seed": seed,
                "words": [int(word) for word in np.random.SeedSequence(seed).generate_state(8)],
                "raw": [str(word) for word in bits(seed).random_raw(16)],
                "doubles": drawn(seed, lambda g: g.random(16)),
                "uniform": drawn(seed, lambda g: g.uniform(-0.05, 0.05, 16)),
                "mixed": mixed,
                "bytes": [
                    {"span": span, "drawn": drawn(seed, lambda g: g.integers(0, span, 21, dtype=np.int8))}
                    for span in (1, 2, 3, 100, 127)
                ],
                "choice": drawn(seed, lambda g: [g.choice(["C", "D", "H", "S"]) for _ in range(12)]),
                "weighted": drawn(seed, lambda g: g.choice(3, 20, p=[0.2, 0.5, 0.3])),
                "normal": drawn(seed, lambda g: g.standard_normal(3000))[-40:],
                "exponential": drawn(seed, lambda g: g.standard_exponential(3000))[-40:],
                "geometric": drawn(seed, lambda g: g.geometric(0.25, 24)),
                "state": {
                    **after.state,
                    "state": {key: str(value) for key, value in after.state["state"].items()},
                },
            }
        )
    words = [[3735928559, 195939070, 229505742, 305419896], [1, 2, 3, 4, 5, 6, 7]]
    return {
        "versions": VERSIONS,
        "seeds": rows,
        "entropy": [
            {"entropy": entropy, "words": [int(word) for word in np.random.SeedSequence(entropy).generate_state(8)]}
            for entropy in words
        ],
    }


# ---- spaces ---------------------------------------------------------------------------------------------------------


def describe(space):
    """A space as on the wire."""
    kind = type(space).__name__
    if isinstance(space, spaces.Discrete):
        return {"type": kind, "n": int(space.n), "start": int(space.start), "dtype": str(space.dtype)}
    if isinstance(space, spaces.Box):
        low = np.where(space.bounded_below, space.low.astype(float), -np.inf)
        high = np.where(space.bounded_above, space.high.astype(float), np.inf)
        return {"type": kind, "low": plain(low), "high": plain(high), "shape": list(space.shape), "dtype": str(space.dtype)}
    if isinstance(space, spaces.MultiDiscrete):
        return {"type": kind, "nvec": plain(space.nvec), "start": plain(space.start), "dtype": str(space.dtype)}
    if isinstance(space, spaces.MultiBinary):
        return {"type": kind, "n": plain(space.n)}
    if isinstance(space, spaces.Dict):
        return {"type": kind, "spaces": {key: describe(member) for key, member in space.spaces.items()}}
    if isinstance(space, (spaces.Tuple, spaces.OneOf)):
        return {"type": kind, "spaces": [describe(member) for member in space.spaces]}
    if isinstance(space, spaces.Text):
        charset = "".join(space.character_list)
        return {"type": kind, "min_length": space.min_length, "max_length": space.max_length, "charset": charset}
    if isinstance(space, spaces.Sequence):
        return {"type": kind, "space": describe(space.feature_space), "stack": space.stack}
    edge = None if space.edge_space is None else describe(space.edge_space)
    return {"type": kind, "node_space": describe(space.node_space), "edge_space": edge}


def graph(value):
    if isinstance(value, spaces.GraphInstance):
        return {"nodes": plain(value.nodes), "edges": plain(value.edges), "edge_links": plain(value.edge_links)}
    return plain(value)


INF = np.inf
SPACES = [
    spaces.Discrete(2),
    spaces.Discrete(7, start=-3),
    spaces.Discrete(5, dtype=np.int8),
    spaces.Discrete(200, dtype=np.uint8),
    spaces.Discrete(1000, dtype=np.int32),
    spaces.Discrete(1),
    spaces.Box(-1.0, 2.0, (3,)),
    spaces.Box(-1.0, 2.0, (2, 3), dtype=np.float64),
    spaces.Box(np.array([-4.8, -INF, -0.5, 0.0]), np.array([4.8, INF, INF, 0.0]), dtype=np.float64),
    spaces.Box(np.array([-INF, -INF], dtype=np.float32), np.array([3.0, INF], dtype=np.float32)),
    spaces.Box(0, 255, (2, 2, 3), dtype=np.uint8),
    spaces.Box(-5, 5, (4,), dtype=np.int64),
    spaces.Box(-128, 127, (4,), dtype=np.int8),
    spaces.Box(0.0, 1.0, ()),
    spaces.MultiDiscrete([5, 2, 2]),
    spaces.MultiDiscrete([[3, 4], [5, 6]], start=[[1, 2], [3, 4]]),
    spaces.MultiBinary(5),
    spaces.MultiBinary([2, 3]),
    spaces.Tuple((spaces.Discrete(32), spaces.Discrete(11), spaces.Discrete(2))),
    spaces.Dict({"position": spaces.Box(-1, 1, (2,)), "inner": spaces.Dict({"b": spaces.Discrete(3), "a": spaces.MultiBinary(2)})}),
    spaces.Text(8),
    spaces.Text(4, min_length=0, charset="zyxé"),
    spaces.Sequence(spaces.Discrete(4)),
    spaces.Sequence(spaces.Box(0, 1, (2,)), stack=True),
    spaces.Sequence(spaces.Tuple((spaces.Discrete(4), spaces.Box(0, 1, (1,))))),
    spaces.OneOf((spaces.Discrete(3), spaces.Box(0, 1, (2,)), spaces.Text(3))),
    spaces.Graph(spaces.Box(-1, 1, (2,)), spaces.Discrete(3)),
    spaces.Graph(spaces.Discrete(5), None),
    spaces.Graph(spaces.Discrete(5), spaces.Box(0, 1, (1,), dtype=np.float64)),
]


def mask_vectors():
    """Samples under a mask, for the kinds that actions have."""
    one, two = np.array([0, 1, 0, 1], dtype=np.int8), np.array([1, 1], dtype=np.int8)
    none = np.array([0, 0, 0, 0], dtype=np.int8)
    cases = [
        (spaces.Discrete(4), one),
        (spaces.Discrete(4, start=3), none),
        (spaces.MultiDiscrete([4, 2]), (one, two)),
        (spaces.MultiBinary(4), np.array([0, 1, 2, 2], dtype=np.int8)),
        (spaces.Tuple((spaces.Discrete(4), spaces.Discrete(2))), (one, None)),
        (spaces.Dict({"a": spaces.Discrete(4), "b": spaces.Discrete(9)}), {"a": one, "b": None}),
        (spaces.OneOf((spaces.Discrete(4), spaces.Discrete(2))), (one, two)),
    ]
    for space, mask in cases:
        space.seed(7)
        samples = [plain(space.sample(mask=mask)) for _ in range(10)]
        yield {"space": describe(space), "seed": 7, "mask": plain(mask), "samples": samples}


def space_vectors():
    rows = []
    for space in SPACES:
        for seed in (0, 123, 2**31 - 1):
            space.seed(seed)
            rows.append({"space": describe(space), "seed": seed, "samples": [graph(space.sample()) for _ in range(6)]})
    return {"versions": VERSIONS, "samples": rows, "masked": list(mask_vectors())}


# ---- episodes -------------------------------------------------------------------------------------------------------


def balance(observation):
    """Holds the pole up for most of an episode."""
    return int(observation[2] + 0.4 * observation[3] + 0.02 * observation[0] + 0.1 * observation[1] > 0)


def swing(observation):
    return 2 if observation[1] >= 0 else 0


# Id, arguments of make, options of reset, policy (None: samples of the action space), options of the recorder: `states` records
# the physics before each step, for episodes in which a difference in the last place of a sine grows; `steps` ends an episode.
VARIANTS = [
    ("CartPole-v1", {}, {}, None, {}),
    ("CartPole-v1", {}, {}, balance, {"states": True}),
    ("CartPole-v1", {"sutton_barto_reward": True}, {"low": -0.1, "high": 0.2}, None, {}),
    ("MountainCar-v0", {}, {}, None, {}),
    ("MountainCar-v0", {"goal_velocity": 0.02}, {"low": -0.9}, swing, {}),
    ("Acrobot-v1", {}, {}, None, {"states": True}),
    ("Acrobot-v1", {}, {"low": -1.5, "high": 1.5}, None, {"states": True, "steps": 100}),
    ("FrozenLake-v1", {}, {}, None, {}),
    ("FrozenLake-v1", {"is_slippery": False, "reward_schedule": [5, -2, -0.5]}, {}, None, {}),
    ("FrozenLake-v1", {"desc": ["SFFFF", "FHFSF", "FFFFG"], "success_rate": 0.75}, {}, None, {}),
    ("FrozenLake8x8-v1", {}, {}, None, {}),
    ("CliffWalking-v1", {}, {}, None, {"steps": 200}),
    ("CliffWalkingSlippery-v1", {}, {}, None, {"steps": 200}),
    ("Taxi-v4", {}, {}, None, {}),
    ("Taxi-v4", {}, {}, "masked", {}),
    ("Taxi-v4", {"is_rainy": True, "rainy_probability": 0.7}, {}, "masked", {"steps": 60}),
    ("Taxi-v4", {"fickle_passenger": True, "fickle_probability": 0.6}, {}, "masked", {"steps": 60}),
    ("Taxi-v4", {"is_rainy": True, "fickle_passenger": True}, {}, "masked", {"steps": 60}),
    ("Blackjack-v1", {}, {}, None, {}),
    ("Blackjack-v1", {"sab": False, "natural": True}, {}, None, {}),
    ("Blackjack-v1", {"sab": False, "natural": False}, {}, None, {}),
]


def episodes(count, most_steps=10**9):
    for variant, (name, make, options, policy, how) in enumerate(VARIANTS):
        text = "ansi" in gym.make(name).metadata["render_modes"]
        env = gym.make(name, **make, **({"render_mode": "ansi"} if text else {}), disable_env_checker=True)
        for episode in range(count):
            # Every fifth episode continues the generator, every seventh has a seed of more than 32 bits.
            seed = None if episode % 5 == 2 else episode + (2**40 if episode % 7 == 1 else 0)
            observation, info = env.reset(seed=seed, options=options)
            env.action_space.seed(episode)
            line = {"variant": variant, "id": name, "make": make, "options": options, "seed": seed}
            line["start"] = {"observation": plain(observation), "info": plain(info)}
            actions, observations, rewards, infos, states, renders = [], [], [], [], [], []
            for step in range(min(how.get("steps", 10**9), most_steps)):
                if how.get("states"):
                    states.append(plain(env.unwrapped.state))
                if text and episode < 5 and step < 6:
                    renders.append(env.render())
                if policy == "masked":
                    action = env.action_space.sample(info["action_mask"])
                elif policy is None:
                    action = env.action_space.sample()
                else:
                    action = policy(observation)
                observation, reward, terminated, truncated, info = env.step(action)
                actions.append(plain(action))
                observations.append(plain(observation))
                rewards.append(plain(reward))
                infos.append(plain(info))
                if terminated or truncated:
                    break
            if how.get("states"):
                line["states"] = [*states, plain(env.unwrapped.state)]
            line |= {"actions": actions, "observations": observations, "rewards": rewards}
            line |= {"terminated": bool(terminated), "truncated": bool(truncated)}
            if any(infos):
                line["infos"] = infos
            if renders:
                line["renders"] = renders
            # What the action space samples, where the policy did not move its generator.
            if policy is None:
                line["action_seed"] = episode
            print(json.dumps(line))
    for seed in range(min(count, 50)):
        size, p = 3 + seed % 6, 0.6 + 0.3 * (seed % 2)
        print(json.dumps({"map": {"size": size, "p": p, "seed": seed}, "rows": generate_random_map(size, p, seed)}))


if __name__ == "__main__":
    what = sys.argv[1]
    if what == "episodes":
        episodes(*map(int, sys.argv[2:]))
    else:
        print(json.dumps({"random": random_vectors, "spaces": space_vectors}[what](), indent=None))
