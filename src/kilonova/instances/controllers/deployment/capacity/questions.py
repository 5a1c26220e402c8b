"""Questions of one reconcile about capacity. What is known is answered at once, the others are
collected: `desire` is pure, and is called again with their answers."""

from collections.abc import Sequence

import msgspec

from kilonova.api.inference_engine import (
    EngineSpec,
    InferenceEngineDeployment,
    InferenceEngineInstance,
)
from kilonova.instances.controllers.deployment.capacity.estimator import CapacityEstimator
from kilonova.instances.controllers.deployment.observed import CapacityEstimate
from kilonova.kube import Key

_Question = tuple[bytes, frozenset[Key]]
"""The template, and the instances that would be gone."""


class CapacityQuestions:
    """Questions about a deployment. Without an estimator, nothing is known."""

    def __init__(self, estimator: CapacityEstimator | None) -> None:
        self._estimator = estimator
        self._answers: dict[_Question, CapacityEstimate | None] = {}
        self._open: dict[_Question, EngineSpec] = {}

    def ask(
        self,
        deployment: InferenceEngineDeployment,
        template: EngineSpec,
        without: Sequence[InferenceEngineInstance],
    ) -> CapacityEstimate | None:
        """The answer; None while it is not known."""
        if self._estimator is None:
            return None
        if not without:
            return self._estimator.get(deployment, template)
        gone = frozenset((each.metadata.namespace, each.metadata.name) for each in without)
        question = msgspec.json.encode(template, order="sorted"), gone
        if question not in self._answers:
            self._open[question] = template
        return self._answers.get(question)

    async def answer(self, deployment: InferenceEngineDeployment) -> bool:
        """Answer what was asked and is not known yet; whether there was any such question."""
        asked, self._open = self._open, {}
        for question, template in asked.items():
            assert self._estimator is not None
            self._answers[question] = await self._estimator.estimate_replacement(
                deployment, template, question[1]
            )
        return bool(asked)
