"""The servers of scenarios."""

from collections.abc import AsyncGenerator

import pytest

from tests.conftest import EMBEDDED_CONTROLLERS, Api, create_namespace
from tests.harness.control_plane import ControlPlane
from tests.workloads.scenarios.support.scenario_api import ScenarioApi, in_process_api


@pytest.fixture(params=["embedded", "kubernetes"])
async def api(request: pytest.FixtureRequest) -> AsyncGenerator[ScenarioApi]:
    """Each server in turn; the embedded API is in this process, a new one for each scenario."""
    if request.param == "embedded":
        async with in_process_api(EMBEDDED_CONTROLLERS) as created:
            yield created
    else:
        control_plane: ControlPlane = request.getfixturevalue("control_plane")
        created = create_namespace(request.param, control_plane.token_access)
        yield created
        delete_pods(created)


def delete_pods(api: Api) -> None:
    """Delete pods that a scenario left pending: a scheduler of another test would place them."""
    path = f"/api/v1/namespaces/{api.namespace}/pods?gracePeriodSeconds=0"
    status, answer = api.access.request("DELETE", path)
    assert status == 200, answer
