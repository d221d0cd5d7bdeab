"""Which kinds the cluster serves, asked once at the start."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from headrace_operator.kube.client import KubeClient
from headrace_operator.kube.errors import KubeError, KubeUnreachableError
from headrace_operator.kube.kinds import Kind

logger = logging.getLogger(__name__)

RETRY_S = 5.0


async def is_served(
    client: KubeClient, kind: Kind, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> bool:
    """Whether the API server knows the kind; while it does not answer, it is asked again."""
    while True:
        try:
            return await client.serves(kind)
        except (KubeError, KubeUnreachableError) as error:
            logger.warning("cannot tell whether there are %s: %s", kind.plural, error)
            await sleep(RETRY_S)
