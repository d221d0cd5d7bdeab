"""The admin port's reading of step and request records."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from headrace_engine.server.admin_routes import AdminCalls
from headrace_engine.server.errors import invalid
from headrace_engine.server.responses import json_response
from headrace_engine.server.service import Service
from headrace_engine.telemetry.records import MOST_RECORDS, CursorError

DEFAULT_RECORDS = 1_000
_PARAMETERS = frozenset({"since", "limit"})


def telemetry_routes(service: Service, calls: AdminCalls) -> APIRouter:
    router = APIRouter(prefix="/v1/admin")

    @router.get("/telemetry")
    async def get_telemetry(request: Request) -> Response:
        await calls.document(request)
        for name in request.query_params.keys() - _PARAMETERS:
            raise invalid(name[:64], f"Unknown parameter: {name[:64]!r}.")
        limit = _limit(request.query_params.get("limit"))
        try:
            document = service.serving().records.document(request.query_params.get("since"), limit)
        except CursorError as error:
            raise invalid("since", f"{error}.") from None
        return json_response(document)

    return router


def _limit(given: str | None) -> int:
    if given is None:
        return DEFAULT_RECORDS
    if not (given.isascii() and given.isdecimal() and len(given) < 9 and 1 <= int(given) <= MOST_RECORDS):
        raise invalid("limit", f"limit takes 1 to {MOST_RECORDS}.")
    return int(given)
