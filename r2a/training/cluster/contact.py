"""How a run and the processes of a cluster find each other, hear from each other, and notice who is gone."""

from __future__ import annotations

import logging
import os
import socket
import time
from typing import Any

import ray
from ray.exceptions import RayTaskError

from r2a.errors import UserError
from r2a.training.learning import NotFiniteError


def connect(address: str) -> None:
    """Join a cluster, or have one of our own for as long as this process lives."""
    if ray.is_initialized():
        raise UserError("This process is part of a Ray cluster already.")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray asks for it; there is no GPU to hide
    os.environ.setdefault("RAY_worker_niceness", "0")  # by default, whatever else runs on the machine comes first
    try:
        host, colon, port = address.rpartition(":")
        if colon:  # Ray itself would wait for minutes
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError) as reason:
        raise UserError(
            f"There is no Ray cluster at {address!r} that lets this run in: start one with `ray start --head`; if it "
            "is there and asks for a token, set RAY_AUTH_MODE=token first; or say --ray-address local."
        ) from reason


def process_settings() -> dict[str, str]:
    """One core for every process, the learner's too, and no GPU: there are as many processes as there is work."""
    flags = os.environ.get("XLA_FLAGS", "")
    return {"XLA_FLAGS": f"{flags} --xla_cpu_multi_thread_eigen=false".strip(), "JAX_PLATFORMS": "cpu"}


def answer(reference: Any) -> Any:
    """What a process answers; what it refuses, or cannot go on with, is said here as it was there."""
    try:
        return ray.get(reference)
    except RayTaskError as error:
        if isinstance(error.cause, UserError | NotFiniteError):
            raise error.cause from None
        raise


class Pulse:
    """Signs of life: every process is asked for one again and again, and must answer within `patience` seconds."""

    def __init__(self, patience: float):
        self.patience = patience
        self.asked: dict[Any, tuple[Any, float]] = {}

    def stopped(self, who: Any, process: Any) -> bool:
        """Whether a process, which `who` tells from all others, has not answered for too long."""
        question, since = self.asked.pop(who, None) or (process.__ray_ready__.remote(), time.monotonic())
        if ray.wait([question], timeout=0)[0]:  # with an error, if it has died: others hear of that anyway
            return False
        self.asked[who] = question, since
        return time.monotonic() - since > self.patience
