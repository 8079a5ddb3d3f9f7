"""
A host of the A2E Python SDK with every capability that the SDK has a plugin for: its own plugins as they are, those of its cookbook, and where
it has a base class alone, a plugin written the way that class shows.

Usage: python-whole-host.py http FOLDER | stdio FOLDER    as python-host.py, which serves it; FOLDER gets what its plugins store
"""
import importlib.util
import os
import sys
from pathlib import Path

from a2e.caps.mcp.plugin import MCPPlugin
from a2e.caps.skills.plugin import SkillPlugin
from a2e.caps.skills.protocol import SkillDefinition, SkillResult
from a2e.caps.toolkits.plugin import ToolkitPlugin
from a2e.caps.toolkits.protocol import ToolkitConfigureResponse, ToolkitDefinition, ToolkitListResponse
from a2e.schema import A2EHostConfig
from cookbook.servers.learn.learn import Learn
from cookbook.servers.memory.inmemory import InMemoryPlugin


def load(name):
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


python_host = load("python-host")
python_env_host = load("python-env-host")


class Tools(python_host.InteropTools):
    pass


class Corridor(python_env_host.Corridor):
    pass


class Memory(InMemoryPlugin):
    name = "memory"


class Learning(Learn):
    name = "learning"


class Skills(SkillPlugin):
    name = "skills"

    def _list_skills(self):
        return [SkillDefinition(
            name="count", version="1.2.0", description="Counts words", triggers=[], status="Published", when_to_use="", argument_hint="",
            source="system", category="text", tags=["text"], arguments=["text"],
        )]

    def _execute_skill(self, name, arguments, context):
        if name != "count":
            raise ValueError(f"no skill {name}")
        context["emit_event"]("progress", {"pct": 50, "message": "half way"})
        return SkillResult(success=True, data={"words": len(arguments["text"].split())}, duration_ms=1)


class Toolkits(ToolkitPlugin):
    name = "toolkits"
    configured = False

    def _list_toolkits(self, msg):
        return ToolkitListResponse(req_id=msg.id, toolkits=[ToolkitDefinition(
            name="files", category="file", tags=["fs"], tools=["echo"], configured=self.configured,
            schema={"type": "object", "properties": {"root": {"type": "string"}}},
        )])

    def _configure_toolkit(self, msg):
        self.configured = True
        return ToolkitConfigureResponse(req_id=msg.id, toolkit_name=msg.toolkit_name)


class Registry:
    """Where the gateway of the SDK puts the tools of servers."""

    def __init__(self):
        self._tools = {}

    def register(self, entry):
        self._tools[entry.definition.name if hasattr(entry, "definition") else str(entry)] = entry


class Mcp(MCPPlugin):
    def __init__(self, host_instance, config):
        super().__init__(host_instance, {**config, "tool_registry": Registry(), "send_fn": host_instance._send})


def plugin(name, kind, cls, **metadata):
    return {"name": name, "type": kind, "cls": cls, "metadata": metadata}


config = A2EHostConfig(
    server={"host": "127.0.0.1", "port": 0},
    transport={"type": "http", "config": {"base_url": "http://127.0.0.1"}},
    plugins=[
        # The name by which its chains find tools.
        plugin("xceed_terminal", "tools", "__main__.Tools"),
        plugin("toolkits", "toolkits", "__main__.Toolkits"),
        plugin("skills", "skill", "__main__.Skills"),
        plugin("corridor", "env", "__main__.Corridor"),
        plugin("proc", "proc", "a2e.caps.proc.plugin.ProcPlugin", ALLOWED_COMMANDS=["cat", "sh", "sleep"]),
        plugin("memory", "memory", "__main__.Memory"),
        plugin("learning", "learning", "__main__.Learning", store_root=os.path.join(sys.argv[2], "learning")),
        plugin("chains", "chains", "a2e.caps.chains.plugin.ChainPlugin"),
        plugin("planning", "planning", "a2e.caps.planning.plugin.HermesPlanningPlugin", ROOT=os.path.join(sys.argv[2], "planning")),
        plugin("mcp", "mcp", "__main__.Mcp"),
    ],
)

if __name__ == "__main__":
    for folder in ("learning", "planning"):
        os.makedirs(os.path.join(sys.argv[2], folder), exist_ok=True)
    {"http": python_host.serve_http, "stdio": python_host.serve_stdio}[sys.argv[1]](config)
