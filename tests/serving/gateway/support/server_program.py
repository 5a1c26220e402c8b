"""A server in a process of its own, which a test can kill.

`python server_program.py NAME GRPC_PORT HTTP_PORT` answers every call after some milliseconds, with
its name.
"""

import asyncio
import sys

import grpc
import grpc.aio
from aiohttp import web

_DELAY_SECONDS = 0.01


class _Handler(grpc.GenericRpcHandler):
    def __init__(self, name: str) -> None:
        self._name = name

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        async def answer(request: bytes, context: grpc.aio.ServicerContext) -> bytes:
            await asyncio.sleep(_DELAY_SECONDS)
            return self._name.encode()

        return grpc.unary_unary_rpc_method_handler(answer)


async def main(name: str, grpc_port: str, http_port: str) -> None:
    """Serve until killed."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((_Handler(name),))
    server.add_insecure_port(f"127.0.0.1:{grpc_port}")
    await server.start()

    async def answer(request: web.Request) -> web.Response:
        await asyncio.sleep(_DELAY_SECONDS)
        return web.Response(text=name)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", int(http_port)).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
