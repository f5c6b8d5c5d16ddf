"""The shape that a handler's annotations give to its payload and its result, and the versions that a payload has had.

pydantic does the work; it is imported where a handler has a shape. A handler that says nothing (no annotation, ``Any``,
``dict``) has none, and pays nothing.
"""

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dilamme.domain.errors import ConfigurationError, Fault
from dilamme.handlers.annotations import annotations_of, is_being_imported, says_nothing
from dilamme.handlers.misfit import Misfit, faults_in

if TYPE_CHECKING:
    from pydantic import TypeAdapter

SCHEMA_BYTES_MAX = 64 * 1024

Upcast = Callable[[Any], Any]

logger = logging.getLogger("dilamme.registry")


class Shape:
    """What a handler of ``type_`` takes and returns; ``place`` says where it stands, for messages.

    Annotations may name what its module defines further down. So if one cannot be resolved while the module is being
    imported, it is tried again at the first use, and by `resolve`.
    """

    def __init__(self, type_: str, handler: Callable[..., Any], place: str, version: int) -> None:
        self.version = version
        self.upcasts: dict[int, Upcast] = {}
        self._type = type_
        self._handler = handler
        self._place = place
        self._resolved = self._ready = False
        self._payload: TypeAdapter[Any] | None = None
        self._result: TypeAdapter[Any] | None = None
        try:
            self._resolve()
        except NameError as error:
            if not is_being_imported(handler):
                raise self._unresolved(error) from error

    @property
    def says_nothing(self) -> bool:
        """Is every payload taken as it is, and every result?"""
        return self._resolved and self._payload is None and self._result is None and self.version == 1

    @property
    def reads_payloads(self) -> bool:
        """Does it make of a payload's JSON anything else than what it is?"""
        return not self._resolved or self._payload is not None or self.version > 1

    def resolve(self) -> None:
        """Resolves what could not be before, and checks that old payloads can be brought up to ``version``.

        Raises:
            ConfigurationError: an annotation cannot be resolved, or an upcast is missing.
        """
        if self._ready:
            return
        try:
            self._resolve()
        except NameError as error:
            raise self._unresolved(error) from error
        missing = [step for step in range(min(self.upcasts, default=1), self.version) if step not in self.upcasts]
        if missing:
            raise ConfigurationError(
                f"job type '{self._type}' is at version {self.version}, and has no upcast from version"
                f" {' and '.join(map(str, missing))}: add @{self._place.rpartition('.')[2]}.upcast(from_version={missing[0]})"
            )
        self._ready = True

    def read(self, text: str, version: int | None) -> Any:
        """The payload for the handler, from its JSON ``text``.

        Raises:
            Misfit: it does not fit, or cannot be brought up to this version.
        """
        self.resolve()
        if (have := version or 1) != self.version:
            value = json.loads(text)
            for step in range(have, self.version):
                if (upcast := self.upcasts.get(step)) is None:
                    raise Misfit(Fault("", f"no upcast leads from version {step} to version {self.version}"))
                try:
                    value = upcast(value)
                except Exception as error:  # its text may hold values
                    raise Misfit(Fault("", f"the upcast from version {step} raised {type(error).__name__}")) from error
            text = self._json(value)
        if self._payload is None:
            return json.loads(text)
        from pydantic import ValidationError  # noqa: PLC0415

        try:
            return self._payload.validate_json(text)
        except ValidationError as error:
            raise Misfit(*faults_in(error, lambda: json.loads(text))) from None

    def write(self, payload: Any) -> Any:
        """The JSON value of a payload that is to be stored, which fits: what is stored is read once, as its handler will.

        Raises:
            Misfit: it does not fit.
        """
        self.resolve()
        if self._payload is None:
            return payload
        from pydantic import ValidationError  # noqa: PLC0415
        from pydantic_core import PydanticSerializationError  # noqa: PLC0415

        try:
            value = self._payload.dump_python(payload, mode="json", by_alias=True, round_trip=True, warnings=False)
        except PydanticSerializationError as error:
            raise Misfit(Fault("", f"cannot be written as JSON: {str(error).partition(':')[0]}")) from None
        try:
            self._payload.validate_json(self._json(value))
        except ValidationError as error:
            raise Misfit(*faults_in(error, lambda: value)) from None
        return value

    def fit_result(self, result: Any) -> Any:
        """The JSON value of a result.

        Raises:
            Misfit: it does not fit the handler's annotation.
        """
        if self._result is None:
            return result
        from pydantic import ValidationError  # noqa: PLC0415
        from pydantic_core import PydanticSerializationError  # noqa: PLC0415

        try:
            value = self._result.validate_python(result)
            return self._result.dump_python(value, mode="json", by_alias=True, warnings=False)
        except ValidationError as error:
            raise Misfit(*faults_in(error, lambda: result)) from None
        except PydanticSerializationError as error:
            raise Misfit(Fault("", f"cannot be written as JSON: {str(error).partition(':')[0]}")) from None

    def schema(self) -> str | None:
        """The payload's JSON Schema; None if there is none, or it is too large to be published."""
        if self._payload is None:
            return None
        try:
            schema = self._payload.json_schema()
            text = json.dumps(schema, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        except Exception as error:  # whatever a type's own hook raises: a worker must start, also without a schema
            text, why = "", f"{type(error).__name__}: {error}".partition("\n")[0]
        else:
            why = "it holds the character NUL" if "\\u0000" in text else ""
        if why:
            logger.warning("job type '%s' has no JSON schema to publish: %s", self._type, why)
            return None
        if (size := len(text.encode())) > SCHEMA_BYTES_MAX:
            logger.warning(
                "the JSON schema of job type '%s' is not published: it is %s bytes, and at most %s are",
                *(self._type, f"{size:,}", f"{SCHEMA_BYTES_MAX:,}"),
            )
            return None
        return text

    def _resolve(self) -> None:
        if self._resolved:
            return
        name, payload, result = annotations_of(self._handler)
        self._payload = self._adapter(payload, f"its parameter '{name}'")
        self._result = self._adapter(result, "its result")
        self._resolved = True

    def _adapter(self, annotation: Any, what: str) -> "TypeAdapter[Any] | None":
        if says_nothing(annotation):
            return None
        from pydantic import TypeAdapter  # noqa: PLC0415
        from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError  # noqa: PLC0415

        try:
            adapter = TypeAdapter(annotation)
            if not adapter.pydantic_complete:
                adapter.rebuild(raise_errors=True)
        except PydanticUndefinedAnnotation as error:
            raise NameError(error.message) from error
        except PydanticUserError as error:
            raise ConfigurationError(
                f"job type '{self._type}': {self._place}: the annotation of {what} is no type that pydantic knows:"
                f" {error.message.partition(chr(10))[0]}"
            ) from error
        return adapter

    def _unresolved(self, error: NameError) -> ConfigurationError:
        return ConfigurationError(
            f"job type '{self._type}': {self._place}: an annotation of its payload or result cannot be resolved: {error}."
            " Import the name in that module, also at run time, or define it there at the module's level"
        )

    @staticmethod
    def _json(value: Any) -> str:
        from pydantic_core import PydanticSerializationError, to_json  # noqa: PLC0415

        try:
            return to_json(value, inf_nan_mode="constants").decode()
        except PydanticSerializationError as error:
            raise Misfit(Fault("", f"cannot be written as JSON: {str(error).partition(':')[0]}")) from None
