"""A workflow of DBOS whose steps do nothing, stored in SQLite: dbos_steps.py FOLDER delete|wal.

DBOS leaves SQLite its defaults: synchronous=FULL and a rollback journal ("delete"), with which a commit syncs several times. With
"wal" the file is set to WAL before DBOS opens it, and a commit syncs once.
"""

import asyncio
import os
import sqlite3
import sys
import time
import uuid

from dbos import DBOS, SetWorkflowID

from lines import serve_lines

file = os.path.join(sys.argv[1], "dbos.sqlite")
prepared = sqlite3.connect(file)
prepared.execute(f"PRAGMA journal_mode={sys.argv[2]}")
prepared.close()
DBOS(
    config={
        "name": "bench",
        "system_database_url": f"sqlite:///{file}",
        "log_level": "ERROR",
        "run_admin_server": False,
    }
)


@DBOS.step()
def step(at):
    return 1


@DBOS.step()
async def step_async(at):
    return 1


@DBOS.workflow()
def row(nodes):
    for at in range(nodes):
        step(at)
    return nodes


@DBOS.workflow()
async def fan(nodes):
    await asyncio.gather(*[step_async(at) for at in range(nodes)])
    return nodes


DBOS.launch()


def answer(request):
    started = time.perf_counter()
    with SetWorkflowID(str(uuid.uuid4())):
        if request["shape"] == "row":
            row(request["nodes"])
        else:
            asyncio.run(fan(request["nodes"]))
    return {"seconds": time.perf_counter() - started}


serve_lines(answer)
DBOS.destroy()
