"""Steps a second of processor time of Gymnasium, one line of JSON each, for `bench/env.ts`: [name, figure]."""

import json
import statistics
import sys
import time

import gymnasium as gym

SECONDS = float(sys.argv[1])
ROUNDS = 5


def measure(name, stretch):
    stretch()
    figures = []
    for _ in range(ROUNDS):
        start, steps, elapsed = time.process_time(), 0, 0.0
        while elapsed < SECONDS / ROUNDS:
            steps += stretch()
            elapsed = time.process_time() - start
        figures.append(steps / elapsed)
    print(json.dumps([name, statistics.median(figures)]), flush=True)


def single(env):
    actions = [env.action_space.sample() for _ in range(64)]
    env.reset(seed=0)

    def stretch():
        for at in range(256):
            _, _, terminated, truncated, _ = env.step(actions[at % 64])
            if terminated or truncated:
                env.reset()
        return 256

    return stretch


def vector(envs):
    actions = [envs.action_space.sample() for _ in range(64)]
    envs.reset(seed=0)

    def stretch():
        for action in actions:
            envs.step(action)
        return 64 * envs.num_envs

    return stretch


measure("CartPole, bare", single(gym.make("CartPole-v1").unwrapped))
for name in [
    "CartPole-v1", "MountainCar-v0", "Acrobot-v1", "FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1",
    "CliffWalkingSlippery-v1", "Taxi-v4", "Blackjack-v1",
]:
    measure(name, single(gym.make(name)))
for count in (8, 64, 512):
    name = f"CartPole-v1 × {count}"
    measure(name, vector(gym.make_vec("CartPole-v1", num_envs=count, vectorization_mode="sync")))
    measure(f"{name} vector class", vector(gym.make_vec("CartPole-v1", num_envs=count, vectorization_mode="vector_entry_point")))
