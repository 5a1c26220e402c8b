"""Which models a server has, from its settings."""

from kilonova.component.failure import WrongUsage
from kilonova.serving.modelserver.errors import InvalidTensor
from kilonova.serving.modelserver.execution import ServedModel
from kilonova.serving.modelserver.llm.build import read_llm
from kilonova.serving.modelserver.llm.metrics import LlmMetrics
from kilonova.serving.modelserver.models.builtin import BUILTIN_KINDS
from kilonova.serving.modelserver.models.options import Options
from kilonova.serving.modelserver.registry import Load, Model, ModelRegistry, RepositoryFolder
from kilonova.serving.modelserver.settings import ServerSettings


def build_registry(
    settings: ServerSettings, metrics: LlmMetrics
) -> tuple[ModelRegistry, list[str], list[str]]:
    """The registry; the models that must be loaded at the start, and those that may fail.

    A model that the command line names must be loaded; of the repository, one that cannot be is
    reported as unavailable, and the others are served. `WrongUsage` for an invalid option.
    """
    source = RepositoryFolder(settings.model_repository, find_builtin)
    declared: dict[str, Load] = {}
    required: list[str] = []
    for text in settings.models:
        options = Options("--model", text)
        _require_new(options, required)
        required.append(options.name)
        if options.name not in source.list_names():
            declared[options.name] = _read_builtin(options)
        else:
            options.require_all_read("none for a model of the repository")
    for text in settings.llms:
        options = Options("--llm", text)
        _require_new(options, required)
        required.append(options.name)
        declared[options.name] = read_llm(options, metrics)
    if settings.model_repository is None and not required:
        required = list(BUILTIN_KINDS)
    optional = (
        [name for name in source.list_names() if name not in required] if settings.loads_all else []
    )
    return ModelRegistry(declared, source), required, optional


def find_builtin(name: str) -> Load | None:
    """How a built-in model is loaded without options."""
    return _read_builtin(Options("--model", name)) if name in BUILTIN_KINDS else None


def _read_builtin(options: Options) -> Load:
    kind = options.read_text("kind", options.name)
    build = BUILTIN_KINDS.get(kind)
    if build is None:
        kinds = ", ".join(BUILTIN_KINDS)
        raise options.invalid(f"{kind!r} is neither in the repository nor built in: use {kinds}")
    try:
        backend = build(options)
    except InvalidTensor as error:
        raise options.invalid(str(error)) from None

    async def load() -> Model:
        return ServedModel(backend)

    return load


def _require_new(options: Options, names: list[str]) -> None:
    if options.name in names:
        raise WrongUsage(f"there are two models {options.name!r}: name each once")
