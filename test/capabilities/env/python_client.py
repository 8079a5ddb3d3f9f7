"""What Gymnasium itself says of environments of a host: `python_client.py ADDRESS TOKEN`. Prints one JSON object."""
import json
import os
import sys
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../python"))

import gymnasium  # noqa: E402
import numpy as np  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402
from handfast_env import HandfastEnv, HandfastError  # noqa: E402

address, token = sys.argv[1:3]
found = {}

warnings.simplefilter("ignore")
for name in ("CartPole-v1", "FrozenLake-v1", "Blackjack-v1"):
    env = HandfastEnv(name, address, token=token)
    check_env(env, skip_render_check=True, skip_close_check=True)
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

lake = HandfastEnv("FrozenLake-v1", address, token=token, make={"is_slippery": False}, render_mode="ansi")
lake.reset(seed=1)
found["picture"] = "S" in lake.render()
lake.close()
print(json.dumps(found))
