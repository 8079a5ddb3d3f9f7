"""
A host of the A2E Python SDK with the memory of the SDK's own cookbook.

Usage: python-memory-host.py http | stdio     as python-host.py, which serves it
"""
import importlib.util
import sys
from pathlib import Path

from cookbook.servers.memory.inmemory import InMemoryPlugin

spec = importlib.util.spec_from_file_location("python_host", Path(__file__).with_name("python-host.py"))
host = importlib.util.module_from_spec(spec)
spec.loader.exec_module(host)


class Memory(InMemoryPlugin):
    name = "memory"


config = host.A2EHostConfig(
    server={"host": "127.0.0.1", "port": 0},
    transport={"type": "http", "config": {"base_url": "http://127.0.0.1"}},
    plugins=[{"name": "memory", "type": "memory", "cls": "__main__.Memory", "metadata": {}}],
)
{"http": host.serve_http, "stdio": host.serve_stdio}[sys.argv[1]](config)
