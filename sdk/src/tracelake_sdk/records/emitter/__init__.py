"""The emitter: records are on disk before the producer goes on, and in the repository as soon as it answers."""

from tracelake_sdk.records.emitter.draining import FlushReport, flush_folder
from tracelake_sdk.records.emitter.emitter import Emitter, EmitterStatus
from tracelake_sdk.records.emitter.sending_again import send_again
from tracelake_sdk.records.emitter.setting_aside import SetAside, set_aside

__all__ = ["Emitter", "EmitterStatus", "FlushReport", "SetAside", "flush_folder", "send_again", "set_aside"]
