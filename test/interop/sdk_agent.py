"""
What the tests of the A2E Python SDK's clients share: the SDK's agent over the pipes of the program that the first argument names as JSON
(`["stdio", "program", "arg", ...]`), and the results of its calls, which `attempt` keeps for the JSON object that is printed.
"""
import json
import logging
import sys

from a2e.core.client.client import A2EClient
from a2e.core.transports.subprocess import SubprocessTransport

logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
results = {}


def client_of(name, capabilities):
    logger = logging.getLogger(name)
    target = json.loads(sys.argv[1])
    return A2EClient(
        transport=SubprocessTransport(command=target[1:], logger=logger),
        logger=logger, agent_id="python-agent", auth_token="", agent_caps=capabilities,
    )


def plain(value):
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def attempt(name, action):
    try:
        results[name] = plain(action())
    except Exception as error:  # every outcome is a result here
        results[name] = {"failed": type(error).__name__, "code": getattr(error, "code", ""), "message": str(error)}
    return results[name]
