"""A real vLLM server on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.ranks import free_port


class Server:
    """A vLLM server in a process group of its own, without weights.

    Args:
        folder: of its model's description and tokenizer; its log goes there too.
        adapters: run adapters up to this rank.
    """

    def __init__(self, folder: Path, adapters: int) -> None:
        self.port = free_port()
        self.folder, self.adapters = folder, adapters
        self.process: Any = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        module = ["-m", "vllm.entrypoints.openai.api_server", "--model", self.folder, "--port", self.port]
        options = ["--enable-scale-out", "--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"]
        small = ["--load-format", "dummy", "--dtype", "float32", "--enforce-eager", "--max-model-len", "128"]
        small += ["--enable-lora", "--max-lora-rank", self.adapters]
        tied = ["--max-num-seqs", 16, "--hf-overrides", '{"tie_word_embeddings": false}']
        environment = os.environ | {
            **{"VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"},
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
            **{"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "VLLM_LOGGING_LEVEL": "ERROR"},
            "VLLM_ENABLE_V1_MULTIPROCESSING": "1",  # the colocated engine turns it off for its process
            "TMPDIR": str(self.folder),  # vLLM leaves a file there
        }
        command = [sys.executable, *map(str, [*module, *options, *small, *tied])]
        log = (self.folder / "log.txt").open("a")
        self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    def stop(self) -> None:
        """End it as its user would: it removes its shared memory."""
        self.process.terminate()
        self.process.wait(60)

    def kill(self) -> None:
        """End its processes at once, except Python's own that then remove their shared memory."""
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                group = int((process / "stat").read_text().rpartition(")")[2].split()[2])
                if group == self.process.pid and b"resource_tracker" not in (process / "cmdline").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
        self.process.wait()
