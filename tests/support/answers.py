"""An answer of the API, whether it came over HTTP or from the handler in this process."""

import json
from dataclasses import dataclass
from typing import Any

PROBLEM = "application/problem+json"


@dataclass(frozen=True)
class Answer:
    """What came back; the headers' names in small letters."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def pointers(self) -> list[str]:
        """The faults' pointers, after a look at the form of a problem."""
        assert self.headers["content-type"] == PROBLEM
        assert self.json["status"] == self.status
        assert self.json["type"]
        assert self.json["title"]
        assert self.json["detail"]
        return [fault["pointer"] for fault in self.json.get("errors", [])]
