"""A task's arguments: bound by name and checked by type, when it is enqueued and when it runs.

The payload of a task's job is one object, argument name to value, so it can also be written by
hand: `penstock enqueue send_email '{"to": "a@example.com"}'`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

import msgspec

from penstock.app.annotations import is_brought_back
from penstock.app.context import JobContext
from penstock.errors import ArgumentsInvalid, InvalidTask, ResultInvalid
from penstock.kernel.plain import plain_scalar

_BYTES = (bytes, bytearray, memoryview)
"""Left as they are: text that they would become in JSON is not what was passed."""
_PLAIN = frozenset((str, int, float, bool, bytes, type(None)))
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Signature:
    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name = name
        hints = _hints(name, function)
        self.result_type = _convertible(hints.pop("return", Any))
        self.context_parameter = next(
            (known for known, hint in hints.items() if hint is JobContext), None
        )
        self._signature = _without(self.context_parameter, inspect.signature(function))
        self._names = self._signature.parameters.keys()
        self._arguments_type = self._struct(hints)
        self.brought_back = frozenset(
            known for known in self._names if is_brought_back(hints.get(known, Any))
        )
        """Arguments that JSON turns into something else, and that their types turn back."""

    def bind(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """The payload of a call; a `TypeError` as calling the function itself would give."""
        if not arguments and named.keys() == self._names:
            # Nothing to find out, and a tenth of what an enqueue costs.
            payload = {name: named[name] for name in self._names}
        else:
            try:
                payload = self._signature.bind(*arguments, **named).arguments
            except TypeError as error:
                raise TypeError(f"{self._name}: {error}") from None
        self._require_fit(payload)
        return payload

    def for_json(self, payload: dict[str, Any]) -> dict[str, Any]:
        """The payload with what its types bring back as JSON has it; the rest is the codec's."""
        try:
            return {
                known: msgspec.to_builtins(payload[known], str_keys=True, enc_hook=_plain)
                if known in self.brought_back
                else payload[known]
                for known in payload
            }
        except (TypeError, ValueError, RecursionError):
            return payload  # the codec will say why

    def _require_fit(self, payload: dict[str, Any]) -> None:
        """Refuses what the handler could not be called with, before it is anybody's job.

        What is no plain value is looked at as it will be stored: an instance of a class would pass
        as what it is, whatever its fields hold.
        """
        if all(type(value) in _PLAIN for value in payload.values()):
            self._converted(payload)
            return
        try:
            plain = msgspec.to_builtins(
                payload, builtin_types=_BYTES, str_keys=True, enc_hook=_plain
            )
        except Exception:  # noqa: BLE001  # a value of anybody's class may raise anything
            return  # no codec of ours takes it, and whichever is asked to will say why
        self._converted(plain)

    def with_defaults(self, payload: dict[str, Any]) -> dict[str, Any]:
        """All arguments of a call, those included that it leaves to their defaults."""
        bound = self._signature.bind(**payload)
        bound.apply_defaults()
        return bound.arguments

    def check(self, payload: Any) -> dict[str, Any]:
        """The arguments in a payload, as their types; `ArgumentsInvalid` if they do not fit."""
        return msgspec.structs.asdict(self._converted(payload))

    def _converted(self, payload: Any) -> msgspec.Struct:
        if payload is None:
            payload = {}
        if not isinstance(payload, dict):
            names = ", ".join(f'"{name}": …' for name in self._names)
            raise ArgumentsInvalid(
                self._name,
                f"the payload is of type {type(payload).__name__}, and a task takes one object, "
                f"argument name to value: {{{names}}}",
            )
        try:
            # JSON has no other keys than strings, a `dict[int, str]` came through it all the same.
            return msgspec.convert(payload, self._arguments_type, str_keys=True)
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            raise ArgumentsInvalid(self._name, str(error)) from None

    def result(self, value: Any) -> Any:
        """A result as the annotation types it; as it came if that says nothing of use."""
        if self.result_type is Any:
            return value
        try:
            return msgspec.convert(value, self.result_type, str_keys=True)
        except msgspec.ValidationError as error:
            raise ResultInvalid(self._name, str(error)) from None

    def _struct(self, hints: dict[str, Any]) -> type[msgspec.Struct]:
        fields: list[Any] = []
        for parameter in self._signature.parameters.values():
            if parameter.kind not in _NAMED:
                raise InvalidTask(self._name, f"{parameter} has no name of its own; name it")
            hint = hints.get(parameter.name, Any)
            if parameter.default is inspect.Parameter.empty:
                fields.append((parameter.name, hint))
            else:
                fields.append((parameter.name, hint, msgspec.field(default=parameter.default)))
        return _defined(self._name, fields)


def _defined(name: str, fields: list[Any]) -> type[msgspec.Struct]:
    try:
        made = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
        msgspec.json.Decoder(made)
        return made
    except TypeError as error:
        raise InvalidTask(name, f"an annotation can't be checked: {error}") from error


def _hints(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, SyntaxError, TypeError) as error:
        raise InvalidTask(name, f"an annotation can't be resolved: {error}") from error


def _without(name: str | None, signature: inspect.Signature) -> inspect.Signature:
    """As callers see it: the context is not theirs to pass."""
    kept = [parameter for parameter in signature.parameters.values() if parameter.name != name]
    return signature.replace(parameters=kept)


def _plain(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, msgspec.Raw) else plain_scalar(value)


def _convertible(hint: Any) -> Any:
    """The type of a result, or Any if it is one that no JSON can become."""
    try:
        msgspec.json.Decoder(hint)
    except TypeError:
        return Any
    return hint
