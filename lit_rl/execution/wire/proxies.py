"""Stand-ins for objects of the other process: each operation on one is a request there.

A stand-in's class is made from what the other side said about the object's class: same name, mirrored bases, and
exactly those operators that class has. No code of the other process runs here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any

from lit_rl.execution.wire.object_table import OPERATIONS, is_standin_method, standard_exception_class

if TYPE_CHECKING:
    from lit_rl.execution.wire.link import RpcLink

# Attributes with two underscores that are requested from the other side. Any other such attribute could make a library
# here trust the other side: numpy reads memory addresses from some.
_READABLE = frozenset(
    ("__name__", "__qualname__", "__doc__", "__dict__", "__annotations__", "__wrapped__", "__defaults__", "__members__")
)


class ProxyClass(type):
    """Stand-in for a class of the other process: a call makes an instance there, and constants are read there."""

    _class_link_: RpcLink
    _class_number_: int

    def __init__(cls, name: str, bases: tuple[type, ...], members: dict[str, Any]) -> None:
        """Mirror a class that this side derives from a stand-in; stand-ins themselves are made without this call."""
        cls._class_link_.mirror_subclass(cls, name, bases, members)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make an instance in the other process."""
        return cls._class_link_.request("__call__", cls._class_number_, args, kwargs)

    def __getattr__(cls, name: str) -> Any:
        return cls._class_link_.request("getattr", cls._class_number_, _checked_getattr_args(name))

    def __setattr__(cls, name: str, value: Any) -> None:
        cls._class_link_.request("setattr", cls._class_number_, (name, value))

    def __iter__(cls) -> Iterator[Any]:
        members: Iterator[Any] = cls._class_link_.request("__iter__", cls._class_number_)
        return members

    def __len__(cls) -> int:
        return int(cls._class_link_.request("__len__", cls._class_number_))

    def __bool__(cls) -> bool:
        return True

    def __getitem__(cls, key: Any) -> Any:
        return cls._class_link_.request("__getitem__", cls._class_number_, (key,))

    def __contains__(cls, item: Any) -> bool:
        return any(member is item for member in cls)


class Proxy:
    """Base of all stand-ins; a stand-in equals only itself, unless its class was made with comparisons."""

    __slots__ = ("_link_", "_number_")
    _link_: RpcLink
    _number_: int

    def __getattr__(self, name: str) -> Any:
        return self._link_.request("getattr", self._number_, _checked_getattr_args(name))

    def __setattr__(self, name: str, value: Any) -> None:
        self._link_.request("setattr", self._number_, (name, value))

    def __delattr__(self, name: str) -> None:
        self._link_.request("delattr", self._number_, (name,))

    def __dir__(self) -> list[str]:
        return [str(name) for name in self._link_.request("dir", self._number_)]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of the other process>"

    def __copy__(self) -> Any:
        return self._link_.request("copy", self._number_)

    def __deepcopy__(self, memo: Any) -> Any:
        return self._link_.request("deepcopy", self._number_)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"a {type(self).__name__} of another process cannot be pickled")


def new_proxy(kind: type, link: RpcLink, number: int) -> Any:
    """Make the stand-in for the object with this number."""
    proxy: Any = object.__new__(kind)
    object.__setattr__(proxy, "_link_", link)
    object.__setattr__(proxy, "_number_", number)
    return proxy


def new_proxy_class(
    link: RpcLink, number: int, name: str, bases: tuple[type, ...], operations: list[str], methods: list[str]
) -> type:
    """Make the class of the stand-ins for the instances of a class."""
    members: dict[str, Any] = {"__slots__": (), "_class_link_": link, "_class_number_": number}
    # What the other side calls a method must not become an operator such as ``__eq__``.
    members.update({method: _make_proxy_method(number, method) for method in methods if is_standin_method(method)})
    members.update({operation: _FORWARDED[operation] for operation in operations if operation in _FORWARDED})
    if "__await__" in operations:
        members.update(_COROUTINE)
    bases = tuple(base for base in bases if issubclass(base, Proxy)) or (Proxy,)
    try:
        return type.__new__(ProxyClass, name, bases, members)
    except TypeError:  # no order of bases fits, or the name is not valid
        return type.__new__(ProxyClass, "object", (Proxy,), members)


def local_exception_class(link: RpcLink, name: str, bases: tuple[type, ...], known: str) -> type[BaseException]:
    """Return the class for an exception of the other process: the same class if the standard library has it."""
    found = standard_exception_class(known) if known else None
    if found is not None:
        return found
    parents = tuple(base for base in bases if issubclass(base, Exception)) or (Exception,)
    for chosen in (parents, parents[:1]):
        try:
            members = {"__getattr__": _attribute_of_error, "__str__": _text_of_error, "_text_": None}
            made: type[BaseException] = type(name, chosen, members)
        except (TypeError, ValueError):
            continue
        return made
    return Exception


def _attribute_of_error(error: Any, name: str) -> Any:
    origin = error.__dict__.get("_origin_")
    if origin is None:
        raise AttributeError(name)
    return origin[0].request("getattr", origin[1], _checked_getattr_args(name))


def _text_of_error(error: Any) -> str:
    text = error.__dict__.get("_text_")
    return Exception.__str__(error) if text is None else str(text)


def _checked_getattr_args(name: str) -> tuple[str]:
    if name.startswith("__") and name not in _READABLE:
        raise AttributeError(name)
    return (name,)


def _make_proxy_method(class_number: int, name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        if type(self)._class_number_ == class_number or type(self) not in self._link_.derived:
            return self._link_.request("method", self._number_, (name, *args), kwargs)
        return self._link_.request("method of", class_number, (name, self, *args), kwargs)

    method.__name__ = method.__qualname__ = name
    return method


def _make_forwarder(operation: str) -> Callable[..., Any]:
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self._link_.apply_operator(self, operation, args, kwargs)

    return forward


def _request_await(self: Any) -> Any:
    return self._link_.request("await", self._number_)


def _coroutine_await(self: Any) -> Generator[Any, Any, Any]:
    return _request_await(self)
    yield


def _coroutine_send(self: Any, value: Any) -> None:
    raise StopIteration(_request_await(self))


def _coroutine_throw(self: Any, *error: Any) -> None:
    raise error[1] if len(error) > 1 and error[1] is not None else error[0]


def _coroutine_close(self: Any) -> None:
    """A coroutine that was not awaited has nothing to close here."""


_FORWARDED: dict[str, Callable[..., Any]] = {operation: _make_forwarder(operation) for operation in OPERATIONS}
_COROUTINE: dict[str, Any] = {
    "__await__": _coroutine_await,
    "send": _coroutine_send,
    "throw": _coroutine_throw,
    "close": _coroutine_close,
}
