"""`kilonova engine`: a small engine that really runs, for instances on this machine."""

from typing import Annotated

import typer

from kilonova.instances.engine.settings import (
    HEARTBEAT_SECONDS,
    HTTP_PORT,
    JOIN_PORT,
    MIN_HEARTBEAT_SECONDS,
)

app = typer.Typer(add_completion=False, no_args_is_help=True, rich_markup_mode=None)

Model = Annotated[
    str, typer.Option(metavar="NAME", envvar="ENGINE_MODEL", help="The name of the model.")
]
Agents = Annotated[
    int,
    typer.Option(metavar="N", min=1, envvar="ENGINE_AGENTS", help="The number of agents."),
]
Host = Annotated[
    str,
    typer.Option(
        metavar="IP", envvar="ENGINE_HOST", help="The address to listen on.  [default: all]"
    ),
]
Port = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        max=65535,
        envvar="ENGINE_PORT",
        help="The port of the API, health checks and metrics; 0 for any free.",
    ),
]
JoinPort = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        max=65535,
        envvar="ENGINE_JOIN_PORT",
        help="The port that agents join; 0 for any free.",
    ),
]
Heartbeat = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=MIN_HEARTBEAT_SECONDS,
        envvar="ENGINE_HEARTBEAT",
        help="Seconds between heartbeats; an agent is lost after three.",
    ),
]
Index = Annotated[
    int,
    typer.Option(
        metavar="N", min=0, envvar="ENGINE_AGENT_INDEX", help="The index of this agent, from 0."
    ),
]
ConductorAddress = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT", envvar="ENGINE_CONDUCTOR", help="Where the conductor is joined."
    ),
]


@app.callback()
def engine() -> None:
    """Run a small engine: agents, and a conductor to serve requests.

    It has no weights. Agents join the conductor, which serves an OpenAI-style API. Its answers are
    computed from all agents, and are the same each time.

    \b
    Examples:
      kilonova engine conductor --model tiny --agents 2
      kilonova engine agent --model tiny --agents 2 --index 0 --conductor localhost:8001 --port 0
      curl localhost:8000/health/ready
    """


@app.command("agent")
def run_agent_command(
    model: Model,
    agents: Agents,
    index: Index,
    conductor: ConductorAddress,
    host: Host = "",
    port: Port = HTTP_PORT,
) -> None:
    """Run an agent, which joins the conductor, until SIGTERM or Ctrl-C.

    It serves /health/live, /health/ready and /metrics.

    \b
    Examples:
      kilonova engine agent --model tiny --agents 2 --index 1 --conductor conductor:8001
    """
    from kilonova.instances.engine.process import run_agent
    from kilonova.instances.engine.settings import AgentSettings, parse_address

    conductor_host, conductor_port = parse_address(conductor)
    run_agent(
        AgentSettings(
            model=model,
            agents=agents,
            host=host,
            port=port,
            index=index,
            conductor_host=conductor_host,
            conductor_port=conductor_port,
        )
    )


@app.command("conductor")
def run_conductor_command(
    model: Model,
    agents: Agents,
    host: Host = "",
    port: Port = HTTP_PORT,
    join_port: JoinPort = JOIN_PORT,
    heartbeat: Heartbeat = HEARTBEAT_SECONDS,
) -> None:
    """Run the conductor, which serves requests with all agents, until SIGTERM or Ctrl-C.

    It serves /v1/models, /v1/completions, /v1/chat/completions, /health/live, /health/ready and
    /metrics. It is ready when all agents have joined.

    \b
    Examples:
      kilonova engine conductor --model tiny --agents 2 --port 8000 --join-port 8001
    """
    from kilonova.instances.engine.process import run_conductor
    from kilonova.instances.engine.settings import ConductorSettings

    run_conductor(
        ConductorSettings(
            model=model,
            agents=agents,
            host=host,
            port=port,
            join_port=join_port,
            heartbeat=heartbeat,
        )
    )


@app.command("run")
def run_role() -> None:
    """Run what the environment says, as pods of an instance do: ENGINE_ROLE, ENGINE_MODEL …

    \b
    Examples:
      export ENGINE_ROLE=conductor ENGINE_MODEL=tiny ENGINE_AGENTS=2
      kilonova engine run
    """
    import os

    from kilonova.instances.engine.process import run_from_environment

    run_from_environment(os.environ)
