"""What an ended reconcile means for the next one. Pure: an error in, a delay out."""

from dataclasses import dataclass

from headrace_operator.kube.errors import KubeError, KubeUnreachableError
from headrace_operator.kube.leadership import NotLeadingError
from headrace_operator.run.act import NameConflictError

BASE_S = 1.0
CEILING_S = 300.0
CONFLICT_S = 0.1
FORBIDDEN_S = 60.0
STANDBY_S = 5.0
JITTER_RATIO = 0.2


@dataclass(frozen=True, slots=True)
class Retry:
    """`result` labels the outcome in metrics; `is_bug` asks for a traceback."""

    result: str
    delay_s: float
    is_bug: bool = False


def retry_after(error: Exception, *, failures: int, chance: float) -> Retry:
    """`failures` in a row before this one; `chance` in [0, 1) spreads the delays.

    | error                       | next try                                        |
    | not leading                 | soon: the lease may come back                   |
    | 409, first                  | at once: somebody else wrote, we look again     |
    | namespace ending            | late: nothing is to be done there               |
    | 403                         | late: somebody has to grant something first     |
    | anything else               | exponentially later, or when the server says so |
    """
    backoff_s = min(CEILING_S, BASE_S * 2.0 ** min(failures, 20)) * (1 + JITTER_RATIO * (2 * chance - 1))
    match error:
        case NotLeadingError():
            return Retry("NotLeading", STANDBY_S)
        case NameConflictError():
            return Retry("NameConflict", backoff_s)
        case KubeUnreachableError() | TimeoutError():
            return Retry("Unreachable", backoff_s)
        case KubeError() if error.is_conflict:
            return Retry("Conflict", CONFLICT_S if failures == 0 else backoff_s)
        case KubeError() if error.is_namespace_ending:
            return Retry("NamespaceEnding", FORBIDDEN_S)
        case KubeError() if error.status == 401:
            return Retry("Unauthorized", backoff_s)
        case KubeError() if error.is_forbidden:
            return Retry("Forbidden", FORBIDDEN_S)
        case KubeError() if error.is_invalid:
            return Retry("Invalid", backoff_s)
        case KubeError() if error.is_not_found:
            # As where a service was deleted while it was worked on: nothing is wrong with the server.
            return Retry("NotFound", backoff_s)
        case KubeError():
            return Retry("ServerError", max(backoff_s, error.retry_after_s or 0.0))
        case _:
            return Retry("Bug", backoff_s, is_bug=True)
