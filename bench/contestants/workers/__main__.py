"""One side of one contestant: `python -m bench.contestants.workers saq enqueue --url … --jobs 9`.

Each has a module here: `enqueue` answers how long it took, and `work` runs a worker that says so
itself when everything is done. penstock's own worker is started with `penstock worker` instead.
"""

from __future__ import annotations

import argparse
import importlib

from bench.contest import say


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("role", choices=["enqueue", "work"])
    parser.add_argument("--url", required=True)
    parser.add_argument("--jobs", type=int, required=True)
    said = parser.parse_args()
    contestant = importlib.import_module(f"bench.contestants.workers.{said.name}")
    if said.role == "enqueue":
        say(contestant.enqueue(said.url, said.jobs))
    else:
        contestant.work(said.url, said.jobs)


if __name__ == "__main__":
    main()
