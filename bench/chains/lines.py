"""The Python side of lines.mjs: a line of JSON for each request, a line for its reply."""

import json
import sys


def serve_lines(answer):
    """Answers each line in turn, and ends with the input."""
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), flush=True)
