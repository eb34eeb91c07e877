"""The emitter: writes records to disk before the producer continues, and delivers them when the repository answers."""

from tracelake_sdk.records.emitter.draining import FlushReport, flush_folder
from tracelake_sdk.records.emitter.emitter import Emitter, EmitterStatus
from tracelake_sdk.records.emitter.refusals import SetAside, set_aside
from tracelake_sdk.records.emitter.resending import resend

__all__ = ["Emitter", "EmitterStatus", "FlushReport", "SetAside", "flush_folder", "resend", "set_aside"]
