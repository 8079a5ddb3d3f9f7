"""
A client on the A2A Python SDK, as an author of any agent would write one: it has never heard of fleets.

Usage: a2a-client.py ADDRESS send|stream TEXT [TASK]
       a2a-client.py ADDRESS get TASK

"send" waits for the response of a blocking call, "stream" reads a stream to its end. With TASK the message is one in that task.
Prints one line of JSON: the task, with the states that were seen, or the error of the call.
"""
import asyncio
import json
import sys
import uuid

from a2a.client import ClientConfig, create_client
from a2a.helpers.proto_helpers import get_artifact_text, get_data_parts, get_message_text
from a2a.types.a2a_pb2 import GetTaskRequest, Message, Part, Role, SendMessageRequest, TaskState


def shown(task, states):
    return {
        "id": task.id,
        "state": TaskState.Name(task.status.state),
        "states": [TaskState.Name(state) for state in states],
        "text": get_message_text(task.status.message),
        "data": get_data_parts(task.status.message.parts),
        "artifacts": [get_artifact_text(artifact) for artifact in task.artifacts],
    }


async def run(address, action, words, task_id=""):
    client = await create_client(address, client_config=ClientConfig(streaming=action == "stream"))
    states = []
    try:
        if action == "get":
            return shown(await client.get_task(GetTaskRequest(id=words)), states)
        message = Message(
            role=Role.ROLE_USER, message_id=str(uuid.uuid4()), task_id=task_id, parts=[Part(text=words)]
        )
        async for event in client.send_message(SendMessageRequest(message=message)):
            kind = event.WhichOneof("payload")
            if kind == "task":
                task_id = event.task.id
                states.append(event.task.status.state)
            elif kind == "status_update":
                states.append(event.status_update.status.state)
        return shown(await client.get_task(GetTaskRequest(id=task_id)), states)
    except Exception as error:  # the test decides what may fail
        return {"error": type(error).__name__, "message": str(error)}
    finally:
        await client.close()


print(json.dumps(asyncio.run(run(*sys.argv[1:])), default=str))
