"""
Makes a Minari dataset of a file that `handfast env record` wrote: `python jsonl_to_minari.py episodes.jsonl handfast/cartpole-v0`.

Needs minari. Reads the file line by line; an episode that has no end in the file is taken as truncated.
"""
import json
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from handfast_env import from_wire, space_of  # noqa: E402


def buffers(lines, action_space, observation_space):
    """One EpisodeBuffer after the other."""
    from minari.data_collector import EpisodeBuffer

    current = None
    for line in lines:
        event = json.loads(line)
        if event["kind"] == "reset":
            if current is not None:
                yield finished(current)
            current = EpisodeBuffer(
                id=event["episode"],
                seed=event["seed"],
                observations=[from_wire(observation_space, event["observation"])],
                actions=[], rewards=[], terminations=[], truncations=[],
            )
        elif event["kind"] == "step":
            current.observations.append(from_wire(observation_space, event["observation"]))
            current.actions.append(from_wire(action_space, event["action"]))
            current.rewards.append(float("nan") if event["reward"] is None else float(event["reward"]))
            current.terminations.append(event["terminated"])
            current.truncations.append(event["truncated"])
    if current is not None:
        yield finished(current)


def finished(buffer):
    if buffer.actions and not (buffer.terminations[-1] or buffer.truncations[-1]):
        buffer.truncations[-1] = True
    return merged(buffer)


def merged(buffer):
    """Minari stores nested observations and actions as containers of lists."""
    import dataclasses

    return dataclasses.replace(buffer, observations=columns(buffer.observations), actions=columns(buffer.actions))


def columns(values):
    if values and isinstance(values[0], dict):
        return {name: columns([value[name] for value in values]) for name in values[0]}
    if values and isinstance(values[0], tuple):
        return tuple(columns([value[at] for value in values]) for at in range(len(values[0])))
    return values


def convert(path, dataset):
    import minari

    with open(path, encoding="utf-8") as lines:
        header = json.loads(next(lines))
        action_space, observation_space = space_of(header["action_space"]), space_of(header["observation_space"])
        return minari.create_dataset_from_buffers(
            dataset_id=dataset,
            buffer=list(buffers(lines, action_space, observation_space)),
            action_space=action_space,
            observation_space=observation_space,
            algorithm_name="handfast env record",
            description=f"Episodes of {header['env_name']}",
        )


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: jsonl_to_minari.py FILE DATASET_ID")
    made = convert(sys.argv[1], sys.argv[2])
    print(f"{made.total_episodes} episodes, {made.total_steps} steps in {sys.argv[2]}")
