"""An app behind a socket, with the same limits and shutdown in every process."""

import gc
from types import FrameType

import uvicorn
from fastapi import FastAPI

from tracelake.bounded_head import bounded_head
from tracelake.settings import ApiSettings

_BORN = 20_000  # allocations before a young collection; with the default of 700, collections take a tenth of the time of bulk requests


def settle() -> None:
    """Objects built at the start live as long as the process: collecting them again would delay a claim by milliseconds."""
    gc.freeze()
    gc.set_threshold(_BORN, 20, 20)


class HttpServer(uvicorn.Server):
    def __init__(self, app: FastAPI, api: ApiSettings) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                host=api.host,
                port=api.port,
                log_config=None,
                access_log=False,
                lifespan="off",
                loop="uvloop",
                http=bounded_head(api.head_seconds),
                timeout_keep_alive=75,
                timeout_graceful_shutdown=5,
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """A signal stops the process with exit code 0; uvicorn alone would raise the signal again."""
        self.stop()

    def stop(self) -> None:
        self.should_exit = True

    @property
    def port(self) -> int:
        """The port it listens on, once it has started."""
        return int(self.servers[0].sockets[0].getsockname()[1])
