"""Real processes as ranks: forked from the test, so that a fit of two ranks takes less than a second."""

from __future__ import annotations

import multiprocessing as mp
import os
import queue
import socket
import traceback
from collections.abc import Callable
from typing import Any

import torch


def on_ranks(function: Callable[..., Any], *arguments: Any, ranks: int = 2, seconds: float = 60.0) -> list[Any]:
    """Run a function in each of several processes that can reach each other, and return what each returned.

    Only from a process with one thread: a child forked from several hangs. What is returned must pickle without
    sharing memory, so tensors should be lists or NumPy arrays.

    Raises:
        AssertionError: a rank raised, died or did not answer in time; with what it said.
    """
    assert torch.get_num_threads() == 1, "forked ranks need a parent with one thread"
    context = mp.get_context("fork")
    answers: Any = context.Queue()
    port = free_port()
    processes = [
        context.Process(target=_one, args=(answers, function, arguments, rank, ranks, port), daemon=True)
        for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    try:
        results: dict[int, Any] = {}
        faults = []
        while len(results) + len(faults) < ranks:
            try:
                rank, ok, value = answers.get(timeout=seconds if not faults else 5)
            except queue.Empty:
                break
            if ok:
                results[rank] = value
            else:
                faults.append(f"rank {rank}:\n{value}")
        codes = [process.exitcode for process in processes]
        assert len(results) == ranks, "\n".join(faults) or f"no answer after {seconds} s; exit codes {codes}"
        return [results[rank] for rank in range(ranks)]
    finally:
        for process in processes:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()


def _one(answers: Any, function: Callable[..., Any], arguments: Any, rank: int, ranks: int, port: int) -> None:
    become_rank(rank, ranks, port)
    try:
        answers.put((rank, True, function(*arguments)))
    except BaseException:
        answers.put((rank, False, traceback.format_exc()))
    finally:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def become_rank(rank: int, ranks: int, port: int) -> None:
    """Give this process the environment of a rank."""
    places = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": ranks, "NODE_RANK": 0, "GROUP_RANK": 0}
    places |= {"RANK": rank, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks}
    os.environ.update({name: str(value) for name, value in places.items()})


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
