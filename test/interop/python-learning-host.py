"""
A host of the A2E Python SDK with the learning plugin of the SDK's own cookbook.

Usage: python-learning-host.py http FOLDER | stdio FOLDER    as python-host.py, which serves it; FOLDER gets what it learned
"""
import importlib.util
import sys
from pathlib import Path

from cookbook.servers.learn.learn import Learn

spec = importlib.util.spec_from_file_location("python_host", Path(__file__).with_name("python-host.py"))
host = importlib.util.module_from_spec(spec)
spec.loader.exec_module(host)


class Learning(Learn):
    name = "learning"


config = host.A2EHostConfig(
    server={"host": "127.0.0.1", "port": 0},
    transport={"type": "http", "config": {"base_url": "http://127.0.0.1"}},
    plugins=[{
        "name": "learning", "type": "learning", "cls": "__main__.Learning",
        "metadata": {"store_root": sys.argv[2]},
    }],
)
{"http": host.serve_http, "stdio": host.serve_stdio}[sys.argv[1]](config)
