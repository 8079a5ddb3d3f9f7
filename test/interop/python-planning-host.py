"""
A host of the A2E Python SDK with the planning plugin of the SDK itself.

Usage: python-planning-host.py http FOLDER | stdio FOLDER    as python-host.py, which serves it; FOLDER gets its database
"""
import importlib.util
import os
import sys

from a2e.schema import A2EHostConfig

path = os.path.join(os.path.dirname(__file__), "python-host.py")
spec = importlib.util.spec_from_file_location("python_host", path)
python_host = importlib.util.module_from_spec(spec)
spec.loader.exec_module(python_host)

config = A2EHostConfig(
    server={"host": "127.0.0.1", "port": 0},
    transport={"type": "http", "config": {"base_url": "http://127.0.0.1"}},
    plugins=[{
        "name": "planning", "type": "planning", "cls": "a2e.caps.planning.plugin.HermesPlanningPlugin",
        "metadata": {"ROOT": sys.argv[2]},
    }],
)
{"http": python_host.serve_http, "stdio": python_host.serve_stdio}[sys.argv[1]](config)
