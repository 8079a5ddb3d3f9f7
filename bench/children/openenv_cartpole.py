"""
CartPole of Gymnasium behind OpenEnv, for `bench/env-wire.ts`: `serve` prints its port; `client PORT SECONDS` steps one session and
prints its steps, the seconds they took and those of its processor. Server and client are OpenEnv's own.
"""
import asyncio
import json
import socket
import sys
import time

from openenv.core.env_client import EnvClient, StepResult
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State


class Push(Action):
    action: int


class Pole(Observation):
    observation: list[float]


class CartPole(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        import gymnasium

        super().__init__()
        self.env = gymnasium.make("CartPole-v1")

    def reset(self, seed=None, episode_id=None, **_):
        observation, _ = self.env.reset(seed=seed)
        return Pole(observation=observation.tolist(), done=False, reward=0.0)

    def step(self, action, timeout_s=None, **_):
        observation, reward, terminated, truncated, _ = self.env.step(action.action)
        return Pole(observation=observation.tolist(), done=terminated or truncated, reward=float(reward))

    @property
    def state(self):
        return State()


class Client(EnvClient):
    def _step_payload(self, action):
        return {"action": action.action}

    def _parse_result(self, payload):
        return StepResult(observation=payload["observation"], reward=payload.get("reward"), done=payload.get("done", False))

    def _parse_state(self, payload):
        return State(**payload)


async def play(port, seconds):
    async with Client(base_url=f"http://127.0.0.1:{port}") as client:
        steps, done = 0, True
        begun, used = time.monotonic(), time.process_time()
        while time.monotonic() - begun < seconds:
            if done:
                await client.reset()
                done = False
            else:
                done = (await client.step(Push(action=steps % 2))).done
                steps += 1
        return [steps, time.monotonic() - begun, time.process_time() - used]


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        import uvicorn

        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        app = create_fastapi_app(CartPole, Push, Pole)
        uvicorn.Server(uvicorn.Config(app, log_level="critical")).run(sockets=[listener])
    else:
        print(json.dumps(asyncio.run(play(int(sys.argv[2]), float(sys.argv[3])))))
