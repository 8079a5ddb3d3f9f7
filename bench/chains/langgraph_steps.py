"""A graph of LangGraph whose nodes do nothing, with its checkpointer on SQLite: langgraph_steps.py FOLDER.

The checkpointer opens the file in WAL with SQLite's default, synchronous=FULL. durability="sync": what a step did is stored before
the next one starts.
"""

import operator
import os
import sys
import time
import uuid
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from lines import serve_lines


class State(TypedDict):
    done: Annotated[int, operator.add]


def nothing(state):
    return {"done": 1}


def graph_of(shape, nodes):
    graph = StateGraph(State)
    for at in range(nodes):
        graph.add_node(f"n{at}", nothing)
        graph.add_edge(f"n{at - 1}" if shape == "row" and at > 0 else START, f"n{at}")
        if shape == "fan" or at == nodes - 1:
            graph.add_edge(f"n{at}", END)
    return graph


graphs = {}
with SqliteSaver.from_conn_string(os.path.join(sys.argv[1], "langgraph.sqlite")) as saver:

    def answer(request):
        shape, nodes = request["shape"], request["nodes"]
        key = (shape, nodes)
        if key not in graphs:
            graphs[key] = graph_of(shape, nodes).compile(checkpointer=saver)
        config = {
            "configurable": {"thread_id": str(uuid.uuid4())},
            "recursion_limit": nodes + 10,
            "max_concurrency": request["parallel"],
        }
        started = time.perf_counter()
        result = graphs[key].invoke({"done": 0}, config, durability="sync")
        seconds = time.perf_counter() - started
        assert result["done"] == nodes, result
        return {"seconds": seconds}

    serve_lines(answer)
