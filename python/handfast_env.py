"""
Environments of a Handfast host for code that uses Gymnasium: `HandfastEnv("CartPole-v1", "stdio:handfast stdio")`.

One file without dependencies but gymnasium and numpy. It speaks A2E 1.0 over the pipes of a host that it starts (`stdio:COMMAND`),
or over HTTP (`http://…`). Each environment has a session of its own, so that copies in a vector environment do not share one.

    env = HandfastEnv("FrozenLake-v1", "http://127.0.0.1:4700", token=open(...).read(), make={"is_slippery": False})
    observation, info = env.reset(seed=42)
"""
import base64
import http.client
import itertools
import json
import math
import queue
import shlex
import socket
import struct
import subprocess
import threading
import urllib.parse
import zlib

import gymnasium
import numpy as np
from gymnasium import spaces

NUMBERS = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


class HandfastError(Exception):
    """What the host refused; `code` and `detail` are those of its error."""

    def __init__(self, message):
        super().__init__(f'{message.get("code")}: {message.get("message")}')
        self.code = message.get("code")
        self.detail = message.get("detail") or {}


class Pipes:
    """A host as a child process."""

    def __init__(self, command):
        self.child = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def send(self, line):
        self.child.stdin.write(line + "\n")
        self.child.stdin.flush()

    def lines(self):
        yield from self.child.stdout

    def close(self):
        try:
            self.child.stdin.close()
            self.child.wait(5)
        except (OSError, subprocess.TimeoutExpired):
            self.child.kill()
            self.child.wait()
        self.child.stdout.close()


class Http:
    """A host by its address: messages by POST, replies as server-sent events."""

    def __init__(self, address):
        self.address = urllib.parse.urlsplit(address)
        self.posts = self.connection(60)
        self.headers = {"Content-Type": "application/json"}
        self.headers["X-Session-Id"] = json.loads(self.post("/session", b""))["session_id"]
        reading = self.connection(None)
        reading.request("GET", "/stream", headers=self.headers)
        self.stream = reading.getresponse()

    def connection(self, timeout):
        kind = http.client.HTTPSConnection if self.address.scheme == "https" else http.client.HTTPConnection
        made = kind(self.address.hostname, self.address.port, timeout=timeout)
        made.connect()
        # Small messages are sent at once.
        made.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def post(self, path, body):
        self.posts.request("POST", path, body, self.headers)
        reply = self.posts.getresponse()
        text = reply.read()
        if reply.status >= 300:
            raise HandfastError({"code": f"http_{reply.status}", "message": text[:200].decode("utf-8", "replace")})
        return text

    def send(self, line):
        self.post("/send", line.encode("ascii"))

    def lines(self):
        for line in self.stream:
            if line.startswith(b"data: "):
                yield line[6:].decode("utf-8")

    def close(self):
        self.posts.close()
        self.stream.close()


class Session:
    """One A2E session with the capability env. Every wait is bounded."""

    def __init__(self, address, token="", timeout=60.0, agent_id="gymnasium"):
        self.timeout = timeout
        self.ids = itertools.count()
        self.replies = {}
        self.lock = threading.Lock()
        self.closed = False
        self.link = Pipes(address[len("stdio:"):]) if address.startswith("stdio:") else Http(address)
        threading.Thread(target=self.read, daemon=True).start()
        reply = self.call("handshake/req", agent_id=agent_id, agent_caps=["env"], auth_token=token)
        granted = [entry["capability"] for entry in reply.get("accepted_caps", []) if entry.get("enabled", True)]
        if not reply.get("ok", True) or "env" not in granted:
            self.close()
            raise HandfastError({"code": reply.get("reason") or "capability_missing", "message": "the host did not grant env"})

    def read(self):
        try:
            for line in self.link.lines():
                try:
                    message = json.loads(line)
                except ValueError:
                    continue
                waiting = self.replies.get(message.get("req_id")) if isinstance(message, dict) else None
                if waiting is not None and not message["type"].endswith("/event"):
                    waiting.put(message)
        except (OSError, ValueError, AttributeError):
            pass
        lost = {"type": "error", "code": "connection_lost", "message": "the link to the host ended"}
        self.closed = True
        for waiting in list(self.replies.values()):
            waiting.put(lost)

    def call(self, kind, **body):
        if self.closed:
            raise HandfastError({"code": "connection_lost", "message": "the link to the host ended"})
        request = f"py-{next(self.ids)}"
        waiting = self.replies[request] = queue.Queue(1)
        try:
            with self.lock:
                self.link.send(json.dumps({"type": kind, "id": request, "a2e": "1.0", "version": "1.0", **body}))
            reply = waiting.get(timeout=self.timeout)
        except queue.Empty:
            raise HandfastError({"code": "timeout", "message": f"no reply to {kind} within {self.timeout} s"}) from None
        finally:
            del self.replies[request]
        if reply["type"] == "error":
            raise HandfastError(reply)
        return reply

    def close(self):
        if not self.closed:
            self.closed = True
            self.link.close()


def number(value):
    return NUMBERS[value] if isinstance(value, str) else value


def numbers(value):
    return [numbers(item) for item in value] if isinstance(value, list) else number(value)


def space_of(described):
    """The space of Gymnasium that a description of the wire stands for."""
    kind = described["type"]
    if kind == "Discrete":
        return spaces.Discrete(described["n"], start=described.get("start", 0))
    if kind == "Box":
        shape, dtype = tuple(described["shape"]), np.dtype(described.get("dtype", "float32"))
        low, high = (np.broadcast_to(np.array(numbers(described[end])), shape).astype(dtype) for end in ("low", "high"))
        return spaces.Box(low, high, shape, dtype)
    if kind == "MultiDiscrete":
        start = {} if "start" not in described else {"start": np.array(described["start"])}
        return spaces.MultiDiscrete(np.array(described["nvec"]), dtype=np.dtype(described.get("dtype", "int64")), **start)
    if kind == "MultiBinary":
        return spaces.MultiBinary(described["n"])
    if kind == "Text":
        charset = {} if described.get("charset") is None else {"charset": described["charset"]}
        return spaces.Text(described["max_length"], min_length=described.get("min_length", 1), **charset)
    if kind == "Tuple":
        return spaces.Tuple([space_of(part) for part in described["spaces"]])
    if kind == "OneOf":
        return spaces.OneOf([space_of(part) for part in described["spaces"]])
    if kind == "Dict":
        return spaces.Dict({name: space_of(part) for name, part in described["spaces"].items()})
    if kind == "Sequence":
        return spaces.Sequence(space_of(described["space"]), stack=described.get("stack", False))
    if kind == "Graph":
        edges = described.get("edge_space")
        return spaces.Graph(space_of(described["node_space"]), None if edges is None else space_of(edges))
    raise ValueError(f"unknown kind of space {kind!r}")


def from_wire(space, value):
    """The value of a space that a JSON value stands for."""
    if isinstance(space, spaces.Discrete):
        return np.int64(value)
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
    if isinstance(space, spaces.Graph):
        edges = None if value["edges"] is None else np.array(numbers(value["edges"]), dtype=space.edge_space.dtype)
        links = None if value["edge_links"] is None else np.array(value["edge_links"], dtype=np.int32)
        return spaces.GraphInstance(np.array(numbers(value["nodes"]), dtype=space.node_space.dtype), edges, links)
    raise ValueError(f"values of {type(space).__name__} are not supported here")


def to_wire(value):
    """A value as JSON can carry it."""
    if isinstance(value, (np.ndarray, np.generic)):
        return to_wire(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if hasattr(value, "_asdict"):
        return to_wire(value._asdict())
    if isinstance(value, (list, tuple)):
        return [to_wire(item) for item in value]
    if isinstance(value, dict):
        return {name: to_wire(item) for name, item in value.items()}
    return value


class HandfastEnv(gymnasium.Env):
    """One environment of a host. `render_mode`: None, "ansi" or "rgb_array"."""

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 30}

    def __init__(self, name, address, *, token="", make=None, render_mode=None, timeout=60.0):
        self.name = name
        self.make = make or {}
        self.render_mode = render_mode
        self.episode = None
        self.session = Session(address, token, timeout)
        described = self.session.call("env/space/req", env_name=name, options=self.options())
        self.action_space = space_of(described["action_space"])
        self.observation_space = space_of(described["state_schema"]["space"])

    def options(self):
        return {"make": self.make} if self.make else {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.leave()
        body = {**to_wire(options or {}), **self.options()}
        obs = self.session.call("env/reset/req", env_name=self.name, seed=None if seed is None else int(seed), options=body)["obs"]
        self.episode = obs["episode_id"]
        return from_wire(self.observation_space, obs["state"]["observation"]), obs["metadata"]["info"]

    def step(self, action):
        if self.episode is None:
            raise gymnasium.error.ResetNeeded("call reset before step")
        action = {"action_type": "step", "payload": {"action": to_wire(action)}}
        obs = self.session.call("env/step/req", episode_id=self.episode, action=action)["obs"]
        facts = obs["metadata"]
        observation = from_wire(self.observation_space, obs["state"]["observation"])
        reward = math.nan if obs["reward"] is None else float(obs["reward"])
        return observation, reward, facts["terminated"], facts["truncated"], facts["info"]

    def render(self):
        if self.render_mode is None or self.episode is None:
            return None
        mode = "text" if self.render_mode == "ansi" else "screenshot"
        picture = self.session.call("env/render/req", episode_id=self.episode, mode=mode)["render"]
        return picture if isinstance(picture, str) else pixels(base64.b64decode(picture["base64"]))

    def leave(self):
        if self.episode is not None:
            self.session.call("env/close/req", episode_id=self.episode)
            self.episode = None

    def close(self):
        self.episode = None
        self.session.close()


def pixels(data):
    """The pixels of a PNG as the host writes it: 8-bit RGB, lines without a filter."""
    at, body = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IHDR":
            width, height = struct.unpack(">II", data[at + 8:at + 16])
        if kind == b"IDAT":
            body += data[at + 8:at + 8 + length]
        at += length + 12
    lines = np.frombuffer(zlib.decompress(body), dtype=np.uint8).reshape(height, width * 3 + 1)
    return lines[:, 1:].reshape(height, width, 3).copy()
