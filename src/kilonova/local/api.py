"""The API: one request in, one answer out, whoever carries it.

`Api.handle` is what HTTP clients and in-process callers meet alike. It knows who asks; it
does not know how the request came. Every refusal is an `ApiError` raised somewhere below and
turned into a `Status` here, once.
"""

from time import perf_counter

from kilonova.kube.logging import get_logger
from kilonova.kube.transport import Reply, Request, StreamReply
from kilonova.local.auth import Gate, User
from kilonova.local.documents import Documents
from kilonova.local.errors import ApiError, PageNotFound, bad_request, internal
from kilonova.local.metrics import ServerMetrics
from kilonova.local.registry.core import Registry
from kilonova.local.registry.objects import encode
from kilonova.local.routes import resource_target
from kilonova.local.storage import StorageBroken
from kilonova.local.verbs import Verbs

Answer = Reply | StreamReply

_log = get_logger("kilonova.local.api")


class Api:
    """All that is served, for users who are already known."""

    def __init__(
        self,
        registry: Registry,
        documents: Documents,
        verbs: Verbs,
        gate: Gate,
        metrics: ServerMetrics,
    ) -> None:
        self.registry = registry
        self._documents = documents
        self._verbs = verbs
        self._gate = gate
        self._metrics = metrics

    async def handle(self, request: Request, user: User) -> Answer:
        """Answer one request. Never raises but when it is cancelled."""
        started = perf_counter()
        answer = await self._answer(request, user)
        seconds = None if isinstance(answer, StreamReply) else perf_counter() - started
        self._metrics.answered(request.method, answer.status, seconds)
        return answer

    def authorized(self, request: Request, user: User) -> User:
        """Who acts in this request; raises ApiError 403 if they may not. Asked once a request."""
        return self._gate.admit(request, user)

    async def _answer(self, request: Request, user: User) -> Answer:
        try:
            user = self.authorized(request, user)
            document = self._documents.find(request)
            if document is not None:
                return document
            target = resource_target(request.path, self.registry.catalog)
            return await self._verbs.perform(request, target, user)
        except ApiError as error:
            return refusal(error)
        except PageNotFound:
            return Reply(
                404, b"404 page not found\n", {"content-type": "text/plain; charset=utf-8"}
            )
        except StorageBroken as error:
            return refusal(internal(str(error)))
        except RecursionError:
            # Of a patch, say: what is nested so deeply never becomes an object.
            return refusal(bad_request("exceeded max depth"))
        except Exception:
            _log.exception("request failed", method=request.method, path=request.path)
            return refusal(internal("Internal error occurred: see the server's log"))


def refusal(error: ApiError) -> Reply:
    """A `Status` object as an answer."""
    headers = {name.lower(): value for name, value in error.headers.items()}
    headers["content-type"] = "application/json"
    return Reply(error.code, encode(error.status()), headers)
