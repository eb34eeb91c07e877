"""Models that are built when they are first used, so that importing the SDK costs little more than importing its dependencies."""

from pydantic import BaseModel, ConfigDict


class Deferred(BaseModel):
    """Like any model; safe to be first used by several threads at once."""

    model_config = ConfigDict(defer_build=True)
