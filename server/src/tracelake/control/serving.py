"""An app behind a socket, with the same limits and manners in every process."""

import gc
from types import FrameType

import uvicorn
from fastapi import FastAPI

from tracelake.bounded_head import bounded_head
from tracelake.settings import ApiSettings

_BORN = 20_000  # objects before the young are looked through; the usual 700 is a tenth of the time that bulks take


def settle() -> None:
    """What was built at the start lives as long as the process: looking through it would delay a claim by milliseconds."""
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
        """A signal is a wish to stop, and the process ends with 0; uvicorn's own way would end it by the signal."""
        self.stop()

    def stop(self) -> None:
        self.should_exit = True

    @property
    def port(self) -> int:
        """The port it listens on, once it has started."""
        return int(self.servers[0].sockets[0].getsockname()[1])
