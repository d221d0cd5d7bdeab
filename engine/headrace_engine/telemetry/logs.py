"""Logs: one JSON object a line on standard error, each with the request id that the client saw.

A line is ASCII and JSON, which escapes what a client sent (line breaks, terminal codes of seven bits and of
eight), so no request can forge a line. Prompts and outputs are never logged.
"""

import json
import logging
import sys
import time
from contextvars import ContextVar
from typing import Any, TextIO

request_id_in_log: ContextVar[str | None] = ContextVar("request_id", default=None)
"""Set by the server for the request that is being handled."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonLines(logging.Formatter):
    """Everything given as `extra=` becomes a field of its own."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if (request_id := request_id_in_log.get()) is not None:
            line["request_id"] = request_id
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, separators=(",", ":"))

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        return f"{seconds}.{int(record.msecs):03d}Z"


def configure(level: str = "INFO", stream: TextIO | None = None) -> None:
    """Sends every logger's lines to `stream` (standard error). The server library's access lines are ours
    to write.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("uvicorn.access").disabled = True
    for noisy in ("uvicorn", "uvicorn.error", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
