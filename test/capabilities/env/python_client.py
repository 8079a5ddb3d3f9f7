"""What Gymnasium itself says of environments of a host: `python_client.py ADDRESS TOKEN`. Prints one JSON object."""
import json
import os
import sys
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../python"))

import gymnasium  # noqa: E402
import numpy as np  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402
from handfast_env import HandfastEnv, HandfastError, register  # noqa: E402

address, token = sys.argv[1:3]
found = {}

warnings.simplefilter("ignore")
gymnasium.logger.min_level = gymnasium.logger.ERROR
ids = register(address, token)
found["registered"] = "handfast/Taxi-v4" in ids
for name in ("CartPole-v1", "FrozenLake-v1", "Blackjack-v1"):
    # With its spec, so that every mode of drawing and closing twice are checked as well.
    env = gymnasium.make(f"handfast/{name}")
    check_env(env.unwrapped)
    env.close()
found["checked"] = 3

ours, theirs = HandfastEnv("CartPole-v1", address, token=token), gymnasium.make("CartPole-v1")
equal = True
for seed in (0, 42, None, None):
    (one, _), (two, _) = ours.reset(seed=seed), theirs.reset(seed=seed)
    ended = False
    while not ended:
        equal = equal and np.allclose(one, two, rtol=0, atol=1e-6)
        action = int(one[2] > 0)
        one, reward, terminated, truncated, _ = ours.step(action)
        two, *rest = theirs.step(action)
        equal = equal and (reward, terminated, truncated) == tuple(rest[:3])
        ended = terminated or truncated
found["equal"] = bool(equal)
ours.reset()
try:
    ours.step(7)
except HandfastError as error:
    found["refused"] = error.code
found["unknown"] = None
try:
    HandfastEnv("Nonesuch-v0", address, token=token)
except HandfastError as error:
    found["unknown"] = error.code
ours.close()

vector = gymnasium.vector.SyncVectorEnv([lambda: HandfastEnv("CartPole-v1", address, token=token)] * 2)
observations, _ = vector.reset(seed=7)
for _ in range(40):
    observations, rewards, terminations, truncations, _ = vector.step(np.array([0, 1]))
found["vector"] = [list(observations.shape), observations.dtype.name, bool(vector.observation_space.contains(observations))]
vector.close()

# One message for each step of all, with both ways of going on behind an end.
for mode in (gymnasium.vector.AutoresetMode.NEXT_STEP, gymnasium.vector.AutoresetMode.SAME_STEP):
    one = gymnasium.make_vec("handfast/CartPole-v1", 3, vectorization_mode="vector_entry_point", autoreset_mode=mode)
    two = gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 3, autoreset_mode=mode)
    equal = np.allclose(one.reset(seed=[4, 5, 6])[0], two.reset(seed=[4, 5, 6])[0], rtol=0, atol=1e-6)
    choose, ends = np.random.default_rng(1), 0
    for _ in range(120):
        actions = choose.integers(0, 2, 3)
        (first, *facts, infos), (second, *expected, others) = one.step(actions), two.step(actions)
        equal = equal and np.allclose(first, second, rtol=0, atol=1e-6) and all(np.array_equal(*pair) for pair in zip(facts, expected))
        equal = equal and [a.dtype for a in facts] == [b.dtype for b in expected] and sorted(infos) == sorted(others)
        if "final_obs" in others:
            pairs = zip(infos["final_obs"], others["final_obs"])
            equal = equal and all((a is None) == (b is None) and (a is None or np.allclose(a, b, atol=1e-6)) for a, b in pairs)
        ends += int(facts[1].sum())
    one.close()
    found.setdefault("batches", []).append([mode.value, bool(equal), ends > 3])

lake = HandfastEnv("FrozenLake-v1", address, token=token, make={"is_slippery": False}, render_mode="ansi")
lake.reset(seed=1)
found["picture"] = "S" in lake.render()
lake.close()
print(json.dumps(found))
