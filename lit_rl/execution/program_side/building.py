"""The process of a compiler: it writes the sources, runs the commands, and leaves a program or a jar."""

from __future__ import annotations

import os
from typing import Any

from lit_rl.execution.program_side.child import CHANNEL, write_files


def build(job: dict[str, Any]) -> int:
    """Write files, run commands on them, and put what they left into the channel's descriptor."""
    write_files(job["files"])
    for command in job["commands"]:
        pid = os.fork()
        if pid == 0:
            os.dup2(2, 1)  # some print their diagnostics there
            os.execve(command[0], command, {**job["environment"], "HOME": os.getcwd(), "TMPDIR": os.getcwd()})
        _, status = os.waitpid(pid, 0)
        if status:
            return 1
    artefact = job["artefact"]
    if os.path.isdir(artefact):
        _write_jar(artefact, job["main"])
        return 0
    with open(artefact, "rb") as program:
        while chunk := program.read(1 << 20):
            os.write(CHANNEL, chunk)
    return 0


def _write_jar(folder: str, main: str) -> None:
    from zipfile import ZipFile  # rarely needed

    manifest = "Manifest-Version: 1.0\n" + (f"Main-Class: {main}\n" if main else "")
    with open(CHANNEL, "wb", closefd=False) as file, ZipFile(file, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", manifest)
        for place, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(place, name)
                jar.write(path, os.path.relpath(path, folder))
