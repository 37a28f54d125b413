"""Operations on an object that the other process asked for by its number."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping
from typing import Any

from lit_rl.execution.wire.held import OPERATIONS


def operate_on(target: Any, operation: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The result of an operation; ``NotImplemented`` where the class says so.

    Raises:
        ValueError: if the operation is unknown.
    """
    special = _SPECIAL.get(operation)
    if special is not None:
        return special(target, *args, **kwargs)
    if operation not in OPERATIONS:
        raise ValueError(f"no operation {operation}")
    return getattr(type(target), operation)(target, *args)


def _call(target: Any, *args: Any, **kwargs: Any) -> Any:
    return target(*args, **kwargs)


def _method(target: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    return getattr(target, name)(*args, **kwargs)


def _await(target: Any) -> Any:
    """Run a coroutine to its end; in a thread of its own where an event loop runs in this one."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    async def run() -> Any:
        return await target

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(run())
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, run()).result()


_SPECIAL: Mapping[str, Callable[..., Any]] = {
    "getattr": getattr,
    "setattr": setattr,
    "delattr": delattr,
    "dir": dir,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "method": _method,
    "method of": _method,
    "await": _await,
    "__call__": _call,
    "__getitem__": operator.getitem,
    "__setitem__": operator.setitem,
}
