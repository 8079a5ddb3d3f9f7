"""
Environments of a host while their link fails: `python_links.py cut ADDRESS TOKEN` plays through a proxy that cuts the connection before or
after a message of the host, `python_links.py play ADDRESS TOKEN` steps until that fails, `python_links.py restart ADDRESS TOKEN` plays on
when the host is there again. Each prints JSON lines.
"""
import json
import os
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../python"))

import gymnasium  # noqa: E402
import numpy as np  # noqa: E402
from handfast_env import HandfastEnv, HandfastError  # noqa: E402

mode, address, token = sys.argv[1:4]


def say(**facts):
    print(json.dumps(facts), flush=True)


class Proxy:
    """Forwards connections to the host. `lose` is "request" or "reply": the next such bytes are dropped, and the connection is cut."""

    def __init__(self, target):
        self.target = target
        self.lose = None
        self.cuts = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            host = socket.create_connection(self.target)
            for way, source, sink in (("request", client, host), ("reply", host, client)):
                threading.Thread(target=self.forward, args=(way, source, sink), daemon=True).start()

    def forward(self, way, source, sink):
        try:
            while data := source.recv(65536):
                if self.lose == way and (b"env/step" in data):
                    self.lose = None
                    self.cuts += 1
                    break
                sink.sendall(data)
        except OSError:
            pass
        for each in (source, sink):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def cut():
    scheme, _, rest = address.partition("://")
    host, _, port = rest.partition(":")
    proxy = Proxy((host, int(port)))
    ours = HandfastEnv("CartPole-v1", f"{scheme}://127.0.0.1:{proxy.port}", token=token)
    theirs = gymnasium.make("CartPole-v1")
    one, two = ours.reset(seed=3)[0], theirs.reset(seed=3)[0]
    equal = True
    for step in range(30):
        if step % 5 == 0:
            proxy.lose = "request" if step % 2 == 0 else "reply"
        action = int(one[2] > 0)
        one, two = ours.step(action), theirs.step(action)
        equal = equal and np.allclose(one[0], two[0], rtol=0, atol=1e-6) and one[1:4] == two[1:4]
        one = one[0]
    say(equal=bool(equal), cuts=proxy.cuts, steps=ours.steps)
    ours.close()


def play():
    env = HandfastEnv("FrozenLake-v1", address, token=token, make={"is_slippery": False}, reconnect=1)
    env.reset(seed=1)
    say(ready=True)
    try:
        while True:
            # Against the wall: the episode ends by its time limit only.
            if any(env.step(0)[2:4]):
                env.reset()
    except HandfastError as error:
        say(code=error.code, message=str(error), gymnasium=isinstance(error, gymnasium.error.Error))
    begun = time.monotonic()
    try:
        env.reset()
    except HandfastError as error:
        say(code=error.code, bounded=time.monotonic() - begun < 20)
    env.close()
    env.close()
    say(closed=True)


def restart():
    ours = HandfastEnv("CartPole-v1", address, token=token, reconnect=60)
    theirs = gymnasium.make("CartPole-v1")
    one, two = ours.reset(seed=5)[0], theirs.reset(seed=5)[0]
    equal = True
    for step in range(40):
        action = int(one[2] + one[3] > 0)
        one, two = ours.step(action), theirs.step(action)
        equal = equal and np.allclose(one[0], two[0], rtol=0, atol=1e-6) and one[1:4] == two[1:4]
        one = one[0]
        if step == 5:
            say(at=step)
        # The host is killed between two steps, or in one.
        time.sleep(0.02)
    say(equal=bool(equal), steps=ours.steps)
    ours.close()


{"cut": cut, "play": play, "restart": restart}[mode]()
