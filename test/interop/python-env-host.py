"""
A host built on the A2E Python SDK with an env plugin written the way its base class shows: a corridor of five fields. Speaks on stdin and
stdout, as python-host.py does.
"""
import importlib.util
import os

from a2e.caps.env.plugin import EnvPlugin
from a2e.caps.env.protocol import EnvObservation, EnvState
from a2e.schema import A2EHostConfig

spec = importlib.util.spec_from_file_location("python_host", os.path.join(os.path.dirname(__file__), "python-host.py"))
python_host = importlib.util.module_from_spec(spec)
spec.loader.exec_module(python_host)


class Corridor(EnvPlugin):
    name = "corridor"

    def on_reset(self, seed, options):
        self.at = 0
        return EnvState(observation=self.at)

    def on_step(self, episode_id, action):
        # A dict or a model, as the versions of the SDK pass it.
        payload = action["payload"] if isinstance(action, dict) else action.payload
        if payload["action"] not in (0, 1):
            raise ValueError("no such way")
        self.at = max(0, self.at + (1 if payload["action"] == 1 else -1))
        done = self.at == 4
        return EnvObservation(
            episode_id=episode_id, step_num=self._episode.step_num + 1, state=EnvState(observation=self.at), done=done, reward=float(done),
        )


if __name__ == "__main__":
    python_host.serve_stdio(A2EHostConfig(
        server={"host": "127.0.0.1", "port": 0},
        transport={"type": "http", "config": {"base_url": "http://127.0.0.1"}},
        plugins=[{"name": "corridor", "type": "env", "cls": "__main__.Corridor", "metadata": {"priority": 1}}],
    ))
