"""The same answers over HTTP: the paths of the v2 protocol that concern all servers, and the list
of models of the OpenAI API."""

from typing import Any

import msgspec

from kilonova.kube import Reply, Request
from kilonova.kube.serving.routing import Routes, json_reply
from kilonova.serving.controlplane.answers.json_forms import encode_message
from kilonova.serving.controlplane.answers.service_answers import NoAnswer, ServiceAnswers
from kilonova.serving.controlplane.authentication import Authenticator, CallRefused
from kilonova.serving.controlplane.holds.answer import HoldOutcome
from kilonova.serving.controlplane.holds.requests import HoldUnavailable
from kilonova.serving.gateway.model import ServiceKey


class _IndexOptions(msgspec.Struct):
    ready: bool = False


class _OpenAiModels(msgspec.Struct):
    data: list[dict[str, Any]] = []


class HttpAnswers:
    """Answers requests that gateways forward."""

    def __init__(self, answers: ServiceAnswers, authenticator: Authenticator) -> None:
        self._answers = answers
        self._authenticator = authenticator

    def build_routes(self) -> Routes:
        """The routes of a server."""
        return {"/": self.handle}

    async def handle(self, request: Request) -> Reply:
        """Answer a request."""
        try:
            key = self._authenticator.verify_call(request.headers.items())
            return await self._answer(key, request)
        except CallRefused as error:
            return _reply_error(503 if error.is_temporary else 401, str(error))
        except NoAnswer as error:
            status = {None: 404, HoldOutcome.FULL: 429}.get(error.outcome, 503)
            return _reply_error(status, str(error))
        except HoldUnavailable as error:
            return _reply_error(503, str(error))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return _reply_error(400, f"the request is no valid JSON: {error}")

    async def _answer(self, key: ServiceKey, request: Request) -> Reply:
        answers = self._answers
        match request.path.strip("/").split("/"):
            case ["v2"]:
                return json_reply(200, encode_message(await answers.get_server_metadata(key)))
            case ["v2", "health", "live"]:
                return json_reply(200, b"")
            case ["v2", "health", "ready"]:
                return json_reply(200 if answers.is_ready(key) else 503, b"")
            case ["v2", "repository", "index"]:
                options = msgspec.json.decode(request.body or b"{}", type=_IndexOptions)
                index = await answers.get_index(key, ready=options.ready)
                return json_reply(200, encode_message(index))
            case ["v2", "models", "stats"]:
                return json_reply(200, encode_message(await answers.get_statistics(key, "", "")))
            case ["v2", "models", name, "versions", version, *rest] if len(rest) <= 1:
                return await self._answer_model(key, name, version, rest)
            case ["v2", "models", name, *rest] if len(rest) <= 1:
                return await self._answer_model(key, name, "", rest)
            case ["v1", "models"]:
                return await self._list_openai_models(key)
            case _:
                return _reply_error(404, f"no such path: {request.path}")

    async def _answer_model(
        self, key: ServiceKey, name: str, version: str, rest: list[str]
    ) -> Reply:
        answers = self._answers
        match rest:
            case []:
                found = await answers.get_model_metadata(key, name, version)
                return json_reply(200, encode_message(found))
            case ["config"]:
                config = await answers.get_model_config(key, name, version)
                return json_reply(200, encode_message(config))
            case ["stats"]:
                statistics = await answers.get_statistics(key, name, version)
                return json_reply(200, encode_message(statistics))
            case ["ready"]:
                is_ready = await answers.is_model_ready(key, name, version)
                return json_reply(200 if is_ready else 503, b"")
            case _:
                return _reply_error(404, f"models have no {rest[0]!r}")

    async def _list_openai_models(self, key: ServiceKey) -> Reply:
        models: dict[str, dict[str, Any]] = {}
        for body in await self._answers.fetch_openai_models(key):
            try:
                listed = msgspec.json.decode(body, type=_OpenAiModels)
            except msgspec.DecodeError:
                continue  # a server that speaks something else
            for model in listed.data:
                models.setdefault(str(model.get("id", "")), model)
        data = [models[name] for name in sorted(models)]
        return json_reply(200, msgspec.json.encode({"object": "list", "data": data}))


def _reply_error(status: int, message: str) -> Reply:
    return json_reply(status, msgspec.json.encode({"error": message}))
