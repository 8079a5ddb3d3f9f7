"""
The transports of the A2E Python SDK, as a run of the checks uses them: over the pipes of a child, over HTTP, and in process, where a second
end passes the messages to a child, since an in-process link of the SDK needs Python at both ends.
"""
import contextlib
import json
import os
import shlex

import a2e.core.transports as transports
from a2e.core.client.client import A2EClient
from a2e.core.transports.direct import DirectTransport
from a2e.core.transports.http import HTTPTransport
from a2e.core.transports.subprocess import SubprocessTransport
from sdk_checks import logger, wait_for


class Opener:
    def __init__(self, settings):
        self.settings = settings
        self.kind = settings["transport"]
        self._ends = []

    def transport(self, command=None, url=None):
        """A transport to the host: a child of the command for pipes and for the link in process, the address for HTTP."""
        if self.kind == "http":
            return HTTPTransport(base_url=url or self.settings["url"], logger=logger)
        child = SubprocessTransport(command=command or self.settings["command"], logger=logger)
        return child if self.kind == "stdio" else self._in_process(child)

    def _in_process(self, child):
        """An end whose other end passes messages between it and the child."""
        near, far = DirectTransport(logger=logger), DirectTransport(logger=logger)
        near.connect(far)
        # A message that is no text is what a wrong use of the SDK makes; the child gets none of it.
        far.set_message_handler(lambda message: child.send(message) if isinstance(message, str) else None)
        child.set_message_handler(far.send)
        start, stop = near.start, near.stop

        def started():
            child.start()
            near._proc = child._proc
            far.start()
            start()

        def stopped():
            # What the agent sent last passes the other end before it closes.
            wait_for(far._in_queue.empty)
            stop()
            far.stop()
            child.stop()

        near.start, near.stop = started, stopped
        return near

    def client(self, capabilities, transport=None, **options):
        return A2EClient(
            transport=transport or self.transport(), logger=logger, agent_id="python-whole", auth_token=self.settings["token"],
            agent_caps=capabilities, **options,
        )

    def spare(self):
        """A transport that is used as the SDK's other clients use it."""
        transport = self.transport()
        transport.set_message_handler(lambda message: None)
        transport.start()
        return transport

    def stop(self, transport):
        transport.stop()

    @contextlib.contextmanager
    def pair(self, capabilities):
        """Two sessions of one agent on one host: the second over the transport of this run, the first over HTTP, which has room for more."""
        if self.kind == "http":
            first, second = self.client(capabilities), self.client(capabilities)
            second.connect()
        else:
            second = self.client(capabilities, self.transport(command=self.settings["both"]))
            second.connect()
            file = self.settings["address"]
            address = wait_for(lambda: os.path.exists(file) and open(file).read())
            first = self.client(capabilities, HTTPTransport(base_url=address, logger=logger))
        try:
            first.connect()
            yield first, second
        finally:
            first.disconnect()
            second.disconnect()

    def refused(self, checks):
        """A token that the host does not know."""
        wrong = A2EClient(transport=self.transport(), logger=logger, agent_id="x", auth_token="wrong", agent_caps=["tools"])

        def connect():
            try:
                wrong.connect()
            except ConnectionError as error:
                return str(error)
            finally:
                wrong.disconnect()

        checks.check("A2EClient.connect", "refuses a wrong token", connect, lambda text: text == "Handshake failed: auth_failed")

    def transports(self, checks):
        {"stdio": self._subprocess, "http": self._http, "direct": self._direct}[self.kind](checks)

    def _common(self, checks, name, transport):
        """What all three have in common, by a ping that is written and read here."""
        heard = []
        check = checks.check
        ping = json.dumps({"type": "ping", "id": "p-1", "version": "1.0"})
        check(f"{name}.set_message_handler", "of messages", lambda: transport.set_message_handler(heard.append), lambda _: True)
        check(f"{name}.start", "opens", transport.start, lambda _: True)
        check(f"{name}.alive", "is open", transport.alive, lambda alive: alive is True)
        check(f"{name}.send", "a ping, which is answered", lambda: transport.send(ping), lambda _: wait_for(
            lambda: any(json.loads(line).get("req_id") == "p-1" for line in heard)))
        check(f"{name}.deliver", "a message as if it came from the host", lambda: transport.deliver('{"type":"pong"}'), lambda _: wait_for(
            lambda: '{"type":"pong"}' in heard))
        return heard

    def _ended(self, checks, name, transport):
        checks.check(f"{name}.stop", "closes", transport.stop, lambda _: not transport.alive())

    def _subprocess(self, checks):
        command, folder = self.settings["command"], self.settings["folder"]
        made = checks.check(
            "SubprocessTransport.__init__", "with an environment and a folder", lambda: SubprocessTransport(
                command, logger, env={"HANDFAST_HOME": folder}, cwd=folder, max_queue_size=10, start_timeout=9.0),
            lambda made: made is not None,
        )
        self._common(checks, "SubprocessTransport", made)
        checks.check("SubprocessTransport.set_out_handler", "of what is sent", lambda: made.set_out_handler(print), lambda _: made._out_handler is print)
        self._ended(checks, "SubprocessTransport", made)
        config = transports.SubprocessTransportConfig(command=shlex.join(command), cwd=folder)
        self._built(checks, transports.TransportConfig(type="subprocess", config=config))

    def _http(self, checks):
        url = self.settings["url"]
        made = checks.check("HTTPTransport.__init__", "with all it takes", lambda: HTTPTransport(
            url, logger, send_path="send", stream_path="stream", session_id="none",
            session_factory=lambda session: session.post(f"{url}/session").json()["session_id"], connect_timeout=9.0, read_timeout=20.0,
            max_retries=2, retry_delay=0.5, max_queue_size=9, drop_on_full=False, headers={"X-Agent": "python"},
        ), lambda made: made is not None)
        self._common(checks, "HTTPTransport", made)
        checks.check("HTTPTransport.session_id", "that of the host", lambda: made.session_id, lambda found: found not in (None, "", "none"))
        checks.check("HTTPTransport.set_out_handler", "of what is sent", lambda: made.set_out_handler(print), lambda _: made._out_handler is print)
        self._ended(checks, "HTTPTransport", made)
        pulled = HTTPTransport(url, logger)
        checks.check("HTTPTransport.set_interceptor", "of what is sent", lambda: pulled.set_interceptor(
            lambda line: line.replace("before", "after")), lambda _: True)
        pulled.start()

        def lines():
            pulled.send(json.dumps({"type": "ping", "id": "before"}))
            return json.loads(next(pulled.lines()))

        checks.check("HTTPTransport.lines", "pulls what no handler takes", lines, lambda message: (message["type"], message["req_id"]) == ("pong", "after"))
        pulled.stop()
        self._built(checks, transports.TransportConfig(type="http", config=transports.HTTPTransportConfig(base_url=url)))

    def _direct(self, checks):
        check = checks.check
        check("DirectTransport.__init__", "of a logger", lambda: DirectTransport(logger), lambda made: made is not None)
        near, far = DirectTransport(logger), DirectTransport(logger)
        check("DirectTransport.connect", "to its other end", lambda: near.connect(far), lambda _: near._out_queue is far._in_queue)
        made = self.transport()
        heard = []
        check("DirectTransport.set_message_handler", "of messages", lambda: made.set_message_handler(heard.append), lambda _: True)
        made.start()
        check("DirectTransport.alive", "is open", made.alive, lambda alive: alive is True)
        check("DirectTransport.send", "a ping, which is answered", lambda: made.send(
            json.dumps({"type": "ping", "id": "p-1"}), block=False, timeout=9.0), lambda _: wait_for(
            lambda: any(json.loads(line).get("req_id") == "p-1" for line in heard)))
        check("DirectTransport.deliver", "a message as if it came from the host", lambda: made.deliver('{"type":"pong"}'), lambda _: wait_for(
            lambda: '{"type":"pong"}' in heard))
        out = []
        check("DirectTransport.set_out_handler", "of what is sent", lambda: (made.set_out_handler(out.append), made.send("x"))[0], lambda _: out == ["x"])
        made.stop()
        check("DirectTransport.start", "opens", near.start, lambda _: near.alive())
        self._ended(checks, "DirectTransport", near)

        def built():
            try:
                transports.build_transport(transports.TransportConfig(type="direct", config=transports.DirectTransportConfig()), logger)
            except ValueError as error:
                return str(error)

        check("build_transport", "refuses what a program connects itself", built, lambda text: "programmatically" in text)

    def _built(self, checks, config):
        def ping():
            client = A2EClient(
                transport=transports.build_transport(config, logger), logger=logger, agent_id="built", auth_token=self.settings["token"], agent_caps=["tools"])
            with client:
                return client.ping()

        checks.check("build_transport", "of a configuration", ping, lambda ms: ms > 0)

