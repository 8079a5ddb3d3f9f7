"""
An agent on the A2A Python SDK, as its author would write one: it has never heard of fleets.

Usage: a2a-agent.py PORT FOLDER

What it does depends on the text of a task:
- "[wait]" in it: works until FOLDER/go exists, then ends with an artifact.
- "[ask]" in it: asks which colour, as a task that needs input, and ends with the answer as its artifact.
- otherwise: ends at once with an artifact.

Appends the text of each message it receives to FOLDER/heard.jsonl. Prints one line when it listens.
"""
import asyncio
import json
import os
import sys

import uvicorn
from a2a.helpers.proto_helpers import get_message_text, new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes.agent_card_routes import create_agent_card_routes
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, TaskState
from starlette.applications import Starlette

PORT, FOLDER = int(sys.argv[1]), sys.argv[2]


class Agent(AgentExecutor):
    async def execute(self, context, event_queue):
        text = get_message_text(context.message)
        with open(os.path.join(FOLDER, "heard.jsonl"), "a", encoding="utf-8") as heard:
            heard.write(json.dumps({"message": context.message.message_id, "text": text}) + "\n")
        answers = context.current_task is not None
        if not answers:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        if answers:
            await updater.add_artifact([new_text_part(f"Painted it {text}.")])
        elif "[ask]" in text:
            await updater.requires_input(new_text_message("Which colour: red or blue?"))
            return
        elif "[wait]" in text:
            while not os.path.exists(os.path.join(FOLDER, "go")):
                await asyncio.sleep(0.05)
            await updater.add_artifact([new_text_part("Done after all.")])
        else:
            await updater.add_artifact([new_text_part("Done.")])
        await updater.complete()

    async def cancel(self, context, event_queue):
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.update_status(TaskState.TASK_STATE_CANCELED)


card = AgentCard(
    name="painter",
    description="Paints things.",
    version="1.0.0",
    supported_interfaces=[
        AgentInterface(url=f"http://127.0.0.1:{PORT}/", protocol_binding="JSONRPC", protocol_version="1.0")
    ],
    capabilities=AgentCapabilities(streaming=True),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[AgentSkill(id="paint", name="Paint", description="Paints.", tags=["paint"])],
)
handler = DefaultRequestHandler(agent_executor=Agent(), task_store=InMemoryTaskStore(), agent_card=card)
app = Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])


class Server(uvicorn.Server):
    async def startup(self, sockets=None):
        await super().startup(sockets)
        print("listening", flush=True)


Server(uvicorn.Config(app, host="127.0.0.1", port=PORT, log_level="warning")).run()
