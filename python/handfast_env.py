"""
Environments of a Handfast host for code that uses Gymnasium: `HandfastEnv("CartPole-v1", "tcp://127.0.0.1:4701")`.

One file without dependencies but gymnasium and numpy. It speaks A2E 1.0 over the pipes of a host that it starts (`stdio:COMMAND`),
a socket (`tcp://HOST:PORT`, `unix:///PATH`), or HTTP (`http://…`, `https://…`). Each environment has a session of its own, so that
copies in a vector environment do not share one. A session outlives a lost link: no step is lost, and none runs twice.

    env = HandfastEnv("FrozenLake-v1", "http://127.0.0.1:4700", make={"is_slippery": False})
    observation, info = env.reset(seed=42)

    register("http://127.0.0.1:4700")                       # every environment of the host, by its name:
    env = gymnasium.make("handfast/FrozenLake-v1")
    envs = gymnasium.make_vec("handfast/CartPole-v1", 64, vectorization_mode="vector_entry_point")  # a message for each step

The token is an argument, or the variable HANDFAST_TOKEN. What a host refuses is a `HandfastError`.
"""
import base64
import http.client
import itertools
import json
import math
import os
import queue
import shlex
import socket
import struct
import subprocess
import threading
import time
import urllib.parse
import weakref
import zlib

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

# How often an idle session shows that it is there. A host drops a link of a resumable session after 15 s of silence.
PING_SECONDS = 5
# Requests sent before the first reply is awaited, at most: a host queues 256.
PIPELINE = 64
# A reset starts a new episode, so that it may be sent again.
REPEATABLE = {"ping", *(f"env/{name}/req" for name in ("reset", "space", "list", "observe", "render", "close"))}
TOKENS = {}


class HandfastError(gymnasium.error.Error):
    """What the host refused, or why it could not be asked; `code` and `detail` are those of its error."""

    def __init__(self, code, message, detail=None):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.detail = detail or {}

    @property
    def may_have_run(self):
        """True when it is not known whether the request did its work."""
        return self.detail.get("may_have_run") is True


class Pipes:
    """A host as a child process. A thread reads, because pipes have no timeout everywhere."""

    resumable = False

    def __init__(self, address, seconds):
        command = address[len("stdio:"):]
        try:
            self.child = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except (OSError, ValueError) as why:
            raise HandfastError("unreachable", f"cannot start {command!r}: {why}") from None
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.child.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def send(self, line):
        self.child.stdin.write(line + b"\n")
        self.child.stdin.flush()

    def receive(self, seconds):
        try:
            line = self.lines.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None
        if line is None:
            self.lines.put(None)
            raise EOFError(f"the host ended with code {self.child.wait(5)}")
        return line

    def close(self, orderly=True):
        try:
            self.child.stdin.close()
            self.child.wait(5)
        except (OSError, subprocess.TimeoutExpired):
            self.child.kill()
            self.child.wait()
        self.child.stdout.close()


class Socket:
    """A connection to a host, over TCP or a Unix socket."""

    resumable = True

    def __init__(self, address, seconds):
        parts = urllib.parse.urlsplit(address)
        if parts.scheme == "unix":
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(seconds)
            self.socket.connect(parts.path)
        else:
            self.socket = socket.create_connection((parts.hostname, parts.port), seconds)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def send(self, line):
        self.socket.sendall(line + b"\n")

    def receive(self, seconds):
        while True:
            line, found, rest = self.buffer.partition(b"\n")
            if found:
                self.buffer = rest
                return line
            self.socket.settimeout(seconds)
            chunk = self.socket.recv(1 << 20)
            if not chunk:
                raise EOFError("the host closed the connection")
            self.buffer += chunk

    def close(self, orderly=True):
        try:
            # Closed with unread input, a socket may destroy what was sent; so the host ends it first.
            self.socket.shutdown(socket.SHUT_WR)
            self.socket.settimeout(1)
            while orderly and self.socket.recv(1 << 16):
                pass
        except OSError:
            pass
        self.socket.close()


class Http:
    """A host by its HTTP address: messages by POST, replies as server-sent events."""

    resumable = True

    def __init__(self, address, seconds):
        self.address = urllib.parse.urlsplit(address)
        self.posts = self.connection(seconds)
        self.headers = {"Content-Type": "application/json"}
        try:
            self.headers["X-Session-Id"] = json.loads(self.request("POST", "/session", b""))["session_id"]
        except (http.client.HTTPException, ValueError, KeyError, TypeError) as why:
            raise HandfastError("unreachable", f"{address} is no host: {type(why).__name__} {why}") from None
        self.reading = self.connection(seconds)
        self.reading.request("GET", "/stream", headers=self.headers)
        # The response has the socket, and closes it; the timeout of each read is the socket's.
        self.socket = self.reading.sock
        self.stream = self.reading.getresponse()

    def connection(self, seconds):
        kind = http.client.HTTPSConnection if self.address.scheme == "https" else http.client.HTTPConnection
        made = kind(self.address.hostname, self.address.port, timeout=seconds)
        made.connect()
        # Small messages are sent at once.
        made.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def request(self, method, path, body=None):
        self.posts.request(method, self.address.path.rstrip("/") + path, body, self.headers)
        reply = self.posts.getresponse()
        text = reply.read()
        # A host that stops, or no longer has the session.
        if reply.status in (404, 503):
            raise EOFError(f"the host replied {reply.status} to {path}")
        if reply.status >= 300:
            try:
                why = json.loads(text)["detail"]
            except (ValueError, KeyError, TypeError):
                why = text[:200].decode("utf-8", "replace")
            raise HandfastError(f"http_{reply.status}", why)
        return text

    def send(self, line):
        try:
            self.request("POST", "/send", line)
        except http.client.HTTPException as why:
            raise EOFError(f"{type(why).__name__} {why}") from None

    def receive(self, seconds):
        self.socket.settimeout(seconds)
        while True:
            try:
                line = self.stream.readline()
            except http.client.HTTPException as why:
                raise EOFError(f"{type(why).__name__} {why}") from None
            if not line:
                raise EOFError("the host ended the stream")
            if line.startswith(b"data: "):
                return line[6:]

    def close(self, orderly=True):
        try:
            if orderly:
                self.request("DELETE", "/session")
        except (OSError, EOFError, http.client.HTTPException, HandfastError):
            pass
        self.posts.close()
        self.stream.close()
        self.reading.close()


LINKS = {"stdio": Pipes, "tcp": Socket, "unix": Socket, "http": Http, "https": Http}


class Session:
    """One A2E session with the capability env. Every wait is bounded: a call by `timeout`, a lost link by `reconnect` seconds."""

    def __init__(self, address, token=None, timeout=60.0, reconnect=30.0, agent_id="gymnasium"):
        self.address = address
        self.timeout = timeout
        self.reconnect = reconnect
        self.kind = LINKS.get(address.partition(":")[0])
        if self.kind is None:
            raise HandfastError("usage", f"expected an address such as tcp://127.0.0.1:4701, http://… or stdio:COMMAND, not {address!r}")
        self.token = TOKENS.get(address, os.environ.get("HANDFAST_TOKEN", "")) if token is None else token
        self.agent_id = agent_id
        self.ids = itertools.count()
        self.lock = threading.Lock()
        self.closed = threading.Event()
        self.link = None
        self.session = None
        self.cursor = 0
        self.sent = 0
        # The newest error without a request, such as the reason for which the host ends the session.
        self.notice = None
        # Why there is no link.
        self.why = None
        self.connect(timeout)
        threading.Thread(target=keep_alive, args=(weakref.ref(self), self.closed), daemon=True).start()

    # The link.

    def connect(self, seconds):
        """Opens a link and makes a session, or resumes the one it had. Returns the messages the host has read; None: a new one."""
        try:
            self.link = self.kind(self.address, seconds)
        except (OSError, EOFError) as why:
            raise HandfastError("unreachable", f"{self.address} does not respond: {why}") from None
        asked = {} if self.session is None else {"session_id": self.session, "cursor": self.cursor}
        extensions = {"handfast/resume": asked} if self.kind.resumable else {}
        asks = {"agent_id": self.agent_id, "agent_caps": ["env"], "auth_token": self.token, "extensions": extensions}
        request = self.message("handshake/req", asks)
        try:
            self.link.send(encoded(request))
            reply = self.reply_to(request["id"], time.monotonic() + seconds)
        except (OSError, EOFError) as why:
            self.drop()
            raise HandfastError("unreachable", f"{self.address} did not reply to the handshake: {why}") from None
        except HandfastError:
            self.drop()
            raise
        granted = [entry["capability"] for entry in reply.get("accepted_caps", []) if entry.get("enabled", True)]
        if not reply.get("ok", True) or "env" not in granted:
            self.drop()
            code = reply.get("reason") or "capability_missing"
            why = {
                "auth_failed": "the host refuses the token; give one as token=… or in HANDFAST_TOKEN",
                "capability_missing": "the host does not grant this token the capability env",
                "no_caps": "the host does not grant this token the capability env",
            }
            raise HandfastError(code, why.get(code, "the host refused the session"))
        resumed = (reply.get("extensions") or {}).get("handfast/resume") or {}
        if resumed.get("resumed") is True:
            self.sent = resumed.get("received", self.sent)
            return self.sent
        self.session, self.cursor, self.sent = reply.get("session_id"), 0, 0
        return None

    def drop(self):
        """Closes the link without a word: the session waits for another one."""
        link, self.link = self.link, None
        if link is not None:
            link.close(orderly=False)

    def restored(self, why):
        """Replaces a lost link within `reconnect` seconds. Returns what `connect` does. Raises when that is not possible."""
        self.drop()
        why = self.why = self.notice or why
        self.notice = None
        if not self.kind.resumable or self.closed.is_set():
            raise HandfastError("connection_lost", why, {"may_have_run": True})
        deadline, pause = time.monotonic() + self.reconnect, 0.05
        while True:
            left = deadline - time.monotonic()
            try:
                return self.connect(max(left, 0.1))
            except HandfastError as error:
                if error.code not in ("unreachable", "server_error", "timeout") or left <= pause:
                    message = f"the link to {self.address} was lost ({why}), and did not come back within {self.reconnect} s: {error.message}"
                    raise HandfastError(error.code, message, {"may_have_run": True}) from None
            self.closed.wait(pause)
            pause = min(pause * 2, 1)

    # Messages.

    def message(self, kind, body):
        return {"type": kind, "id": f"py-{next(self.ids)}", "a2e": "1.0", "version": "1.0", **body}

    def received(self, deadline):
        """The next message of the host. Raises OSError, EOFError, or `timeout`."""
        while True:
            left = deadline - time.monotonic()
            try:
                line = self.link.receive(max(left, 0.001))
            except TimeoutError:
                raise HandfastError("timeout", f"no reply within {self.timeout} s", {"may_have_run": True}) from None
            try:
                message = json.loads(line)
            except ValueError:
                continue  # Hosts may print other lines.
            if not isinstance(message, dict):
                continue
            if isinstance(message.get("cursor"), int):
                self.cursor = message["cursor"]
            if message.get("type") == "ping":
                self.link.send(encoded({**self.message("pong", {}), "req_id": message.get("id")}))
            elif message.get("type") == "error" and not message.get("req_id"):
                self.notice = f'{message.get("code")}: {message.get("message")}'
            else:
                return message

    def reply_to(self, request, deadline):
        while True:
            message = self.received(deadline)
            if message.get("req_id") == request and not str(message.get("type")).endswith("/event"):
                return message

    def calls(self, requests):
        """The replies to several requests, `(type, body)` each, which are sent together."""
        if self.closed.is_set():
            raise HandfastError("usage", "this environment was closed")
        with self.lock:
            messages = [self.message(kind, body) for kind, body in requests]
            replies = self.exchange(messages, time.monotonic() + self.timeout)
        for reply in replies:
            if reply.get("type") == "error":
                raise HandfastError(reply.get("code"), reply.get("message"), reply.get("detail"))
        return replies

    def call(self, kind, **body):
        return self.calls([(kind, body)])[0]

    def exchange(self, messages, deadline):
        """Sends messages and awaits their replies. A lost link is replaced: what the host had not read is sent again."""
        replies, numbers = {}, {}
        why = self.why if self.link is None else None
        while True:
            try:
                if why is not None:
                    reason, why = why, None
                    numbers = self.still_read(self.restored(reason), messages, replies, numbers, reason)
                for message in messages:
                    request = message["id"]
                    if request in replies or request in numbers:
                        continue
                    # Neither side counts pings, and a new link knows none of them.
                    counted = message["type"] != "ping"
                    self.sent += counted
                    numbers[request] = self.sent if counted else math.inf
                    self.link.send(encoded(message))
                while len(replies) < len(messages):
                    reply = self.received(deadline)
                    request = reply.get("req_id")
                    if request in numbers and not str(reply.get("type")).endswith("/event"):
                        replies[request] = reply
                return [replies[message["id"]] for message in messages]
            except (OSError, EOFError) as lost:
                why = str(lost) or type(lost).__name__

    def still_read(self, read, messages, replies, numbers, why):
        """The messages that need not be sent again, with their numbers: the host has read the first `read` of them."""
        if read is not None:
            return {request: number for request, number in numbers.items() if number <= read}
        for message in messages:
            request = message["id"]
            if request in numbers and request not in replies and message["type"] not in REPEATABLE:
                message = f"the host no longer has the session ({why}); whether the step was made is not known"
                raise HandfastError("connection_lost", message, {"may_have_run": True})
        return {}

    def beat(self):
        """Shows that the session is there. Skipped while a call does."""
        if self.lock.acquire(blocking=False):
            try:
                self.exchange([self.message("ping", {})], time.monotonic() + self.timeout)
            except HandfastError:
                pass  # The next call reports it.
            finally:
                self.lock.release()

    def close(self):
        if self.closed.is_set():
            return
        self.closed.set()
        with self.lock:
            if self.link is None:
                return
            try:
                self.link.send(encoded(self.message("shutdown", {"timeout": 0})))
            except (OSError, EOFError, HandfastError):
                pass
            self.link.close()
            self.link = None


def keep_alive(reference, closed):
    """Runs in a thread of each session, and ends with it."""
    while not closed.wait(PING_SECONDS):
        session = reference()
        if session is None:
            return
        session.beat()
        del session


def encoded(message):
    return json.dumps(message).encode("ascii")


def space_of(described):
    """The space of Gymnasium that a description of the wire stands for."""
    kind = described["type"]
    if kind == "Discrete":
        return spaces.Discrete(described["n"], start=described.get("start", 0))
    if kind == "Box":
        shape, dtype = tuple(described["shape"]), np.dtype(described.get("dtype", "float32"))
        # NumPy reads the texts Infinity, -Infinity and NaN.
        low, high = (np.broadcast_to(np.array(described[end], dtype), shape).copy() for end in ("low", "high"))
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
        return np.array(value, dtype=space.dtype).reshape(space.shape)
    if isinstance(space, spaces.Text):
        return value
    if isinstance(space, spaces.Tuple):
        return tuple(from_wire(part, item) for part, item in zip(space.spaces, value))
    if isinstance(space, spaces.OneOf):
        return (np.int64(value[0]), from_wire(space.spaces[value[0]], value[1]))
    if isinstance(space, spaces.Dict):
        return {name: from_wire(part, value[name]) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Sequence):
        items = tuple(from_wire(space.feature_space, item) for item in value)
        return batched(space.feature_space, items) if space.stack else items
    if isinstance(space, spaces.Graph):
        edges = None if value["edges"] is None else np.array(value["edges"], dtype=space.edge_space.dtype)
        links = None if value["edge_links"] is None else np.array(value["edge_links"], dtype=np.int32)
        return spaces.GraphInstance(np.array(value["nodes"], dtype=space.node_space.dtype), edges, links)
    raise ValueError(f"values of {type(space).__name__} are not supported here")


def batched(space, items):
    """Values of a space in one array, or one of each of its parts."""
    return concatenate(space, items, create_empty_array(space, len(items)))


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


def started(made, options):
    """The body of a reset."""
    return {**to_wire(options or {}), **({"make": made} if made else {})}


class HandfastEnv(gymnasium.Env):
    """One environment of a host. `make`: arguments of its construction; `render_mode`: None, "ansi" or "rgb_array", as it has them."""

    metadata = {"render_modes": ["ansi", "rgb_array"], "render_fps": 30}

    def __init__(self, name, address, *, token=None, make=None, render_mode=None, timeout=60.0, reconnect=30.0):
        self.name = name
        self.make = make or {}
        self.render_mode = render_mode
        self.episode = None
        self.steps = 0
        self.session, described = described_by(name, address, token, self.make, timeout, reconnect)
        self.action_space = space_of(described["action_space"])
        self.observation_space = space_of(described["state_schema"]["space"])
        self.metadata = {**self.metadata, "render_modes": described.get("render_modes", self.metadata["render_modes"])}
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            self.session.close()
            raise HandfastError("usage", f"{name} has no render_mode {render_mode!r}; it has {self.metadata['render_modes']}")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.leave()
        body = {"env_name": self.name, "seed": None if seed is None else int(seed), "options": started(self.make, options)}
        obs = self.session.call("env/reset/req", **body)["obs"]
        self.episode, self.steps = obs["episode_id"], obs["step_num"]
        return from_wire(self.observation_space, obs["state"]["observation"]), obs["metadata"]["info"]

    def step(self, action):
        if self.episode is None and not self.session.closed.is_set():
            raise gymnasium.error.ResetNeeded("call reset before step")
        body = {"episode_id": self.episode, "action": {"action_type": "step", "payload": {"action": to_wire(action)}}}
        try:
            obs = self.session.call("env/step/req", **body)["obs"]
        except HandfastError as error:
            if not error.may_have_run or self.session.link is None:
                raise
            obs = self.settled(error, body)
        self.steps = obs["step_num"]
        return (from_wire(self.observation_space, obs["state"]["observation"]), *outcome(obs))

    def settled(self, error, body):
        """What a step led to whose reply was lost. The host knows it where its episode outlived what happened."""
        try:
            obs = self.session.call("env/observe/req", episode_id=self.episode)["obs"]
        except HandfastError:
            raise error from None
        return obs if obs["step_num"] == self.steps + 1 else self.session.call("env/step/req", **body)["obs"]

    def render(self):
        if self.render_mode is None or self.episode is None:
            return None
        return drawn(self.session.call("env/render/req", **picture_of(self.episode, self.render_mode)))

    def leave(self):
        if self.episode is not None:
            self.session.call("env/close/req", episode_id=self.episode)
            self.episode = None

    def close(self):
        self.episode = None
        self.session.close()


class HandfastVectorEnv(gymnasium.vector.VectorEnv):
    """Copies of one environment of a host in one session, stepped by one message. The host starts the next episodes."""

    def __init__(self, name, address, num_envs=1, *, token=None, make=None, render_mode=None, max_episode_steps=None,
                 autoreset_mode=AutoresetMode.NEXT_STEP, timeout=60.0, reconnect=30.0):
        modes = {AutoresetMode.NEXT_STEP: "next_step", AutoresetMode.SAME_STEP: "same_step"}
        if autoreset_mode not in modes:
            raise HandfastError("usage", "autoreset_mode must be AutoresetMode.NEXT_STEP or SAME_STEP; use SyncVectorEnv for DISABLED")
        self.name = name
        self.num_envs = num_envs
        self.make = {**(make or {}), **({} if max_episode_steps is None else {"max_episode_steps": max_episode_steps})}
        self.render_mode = render_mode
        self.autoreset = modes[autoreset_mode]
        self.metadata = {"autoreset_mode": autoreset_mode}
        self.episodes = []
        self.session, described = described_by(name, address, token, self.make, timeout, reconnect)
        self.single_action_space = space_of(described["action_space"])
        self.single_observation_space = space_of(described["state_schema"]["space"])
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed if isinstance(seed, int) else None)
        seeds = [seed + at for at in range(self.num_envs)] if isinstance(seed, (int, np.integer)) else seed or [None] * self.num_envs
        if len(seeds) != self.num_envs:
            raise ValueError(f"expected {self.num_envs} seeds, got {len(seeds)}")
        self.leave()
        rest = {**started(self.make, options), "autoreset": self.autoreset}
        bodies = [
            {"env_name": self.name, "seed": None if each is None else int(each), "options": {**rest, "instance": f"vector.{at}"}}
            for at, each in enumerate(seeds)
        ]
        found = [reply["obs"] for reply in self.each("env/reset/req", bodies)]
        self.episodes = [obs["episode_id"] for obs in found]
        return self.observations(found), self.infos(found)

    def step(self, actions):
        if not self.episodes and not self.session.closed.is_set():
            raise gymnasium.error.ResetNeeded("call reset before step")
        wanted = [{"action_type": "step", "payload": {"action": to_wire(action)}} for action in iterate(self.action_space, actions)]
        results = self.session.call("env/batch_step/req", episode_ids=self.episodes, actions=wanted)["results"]
        for at, result in enumerate(results):
            if "error" in result:
                error = result["error"]
                raise HandfastError(error["code"], f"environment {at}: {error['message']}", {**(error.get("detail") or {}), "at": at})
        found = [result["obs"] for result in results]
        rewards, terminations, truncations, _ = zip(*map(outcome, found))
        return self.observations(found), np.array(rewards), np.array(terminations), np.array(truncations), self.infos(found)

    def observations(self, found):
        space = self.single_observation_space
        return batched(space, [from_wire(space, obs["state"]["observation"]) for obs in found])

    def infos(self, found):
        infos = {}
        for at, obs in enumerate(found):
            facts = obs["metadata"]
            if "final_observation" in facts:
                last = from_wire(self.single_observation_space, facts["final_observation"])
                infos = self._add_info(infos, {"final_obs": last, "final_info": facts["final_info"]}, at)
            infos = self._add_info(infos, facts["info"], at)
        return infos

    def each(self, kind, bodies):
        """The replies to many requests, sent in parts that no host refuses."""
        return [
            reply
            for at in range(0, len(bodies), PIPELINE)
            for reply in self.session.calls([(kind, body) for body in bodies[at:at + PIPELINE]])
        ]

    def render(self):
        if self.render_mode is None or not self.episodes:
            return None
        return tuple(map(drawn, self.each("env/render/req", [picture_of(episode, self.render_mode) for episode in self.episodes])))

    def leave(self):
        self.each("env/close/req", [{"episode_id": episode} for episode in self.episodes])
        self.episodes = []

    def close_extras(self, **kwargs):
        self.episodes = []
        self.session.close()


def described_by(name, address, token, made, timeout, reconnect):
    """A session, and how its host describes an environment."""
    session = Session(address, token, timeout, reconnect)
    try:
        return session, session.call("env/space/req", env_name=name, options=started(made, None))
    except HandfastError:
        session.close()
        raise


def outcome(obs):
    """Reward, terminated, truncated and info of a step."""
    facts = obs["metadata"]
    # Infinity and NaN, which JSON lacks, are texts beside the others.
    reward = float(facts.get("reward", "nan") if obs["reward"] is None else obs["reward"])
    return reward, facts["terminated"], facts["truncated"], facts["info"]


def picture_of(episode, render_mode):
    return {"episode_id": episode, "mode": "text" if render_mode == "ansi" else "screenshot"}


def drawn(reply):
    picture = reply["render"]
    return picture if isinstance(picture, str) else pixels(base64.b64decode(picture["base64"]))


def register(address, token=None, namespace="handfast"):
    """Registers every environment of a host with Gymnasium: `gymnasium.make("handfast/CartPole-v1")`. Returns their ids."""
    if token is not None:
        # Not an argument of the environments: Gymnasium prints and stores those.
        TOKENS[address] = token
    session = Session(address, token)
    try:
        listed = session.call("env/list/req")["environments"]
    finally:
        session.close()
    ids = []
    for described in listed:
        name = described["id"]
        ids.append(f"{namespace}/{name.replace('/', '.')}")
        gymnasium.register(
            ids[-1],
            entry_point=f"{__name__}:HandfastEnv",
            vector_entry_point=f"{__name__}:HandfastVectorEnv",
            max_episode_steps=described.get("max_episode_steps"),
            kwargs={"name": name, "address": address},
        )
    return ids


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
