# SPDX-License-Identifier: Apache-2.0
"""What a plan is, and which bytes are one.

A plan is stored as one JSON object: the four keys of vLLM's own format, the weights of the boot
that measured it, the factors behind its key, and last a checksum of all the bytes of the rest. So
only what `encode` wrote is a plan. That single rule turns duplicate keys, other spellings of a
number, added white space and every flipped bit into a miss, without a list of things to look for
(LOAD-01 to LOAD-03).
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final, TypeGuard, final

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAN_SCHEMA_VERSION: Final = 1

MAX_PLAN_BYTES: Final = 64 * 1024
"""A larger file is no plan (LOAD-05); `encode` never produces one."""

_SEAL: Final = b', "checksum": "'


class NoPlanError(Exception):
    """Why there is no plan: what lies there is none, or none can be made, looked up or stored."""


@final
class Plan:
    """What one boot measured and saved. All sizes are bytes.

    Args:
        fingerprint: the key under which it is stored.
        kv_cache_memory_bytes: the KV-cache size that reproduces the measuring boot.
        free_memory_baseline: free memory of the worker's device when that boot began.
        weights_bytes: what its loaded weights took, or None if the worker did not say.
        factors: the named inputs behind the key, for people; deciding never reads them.
    """

    __slots__ = (
        "factors",
        "fingerprint",
        "free_memory_baseline",
        "kv_cache_memory_bytes",
        "weights_bytes",
    )

    def __init__(
        self,
        fingerprint: str,
        kv_cache_memory_bytes: int,
        free_memory_baseline: int,
        weights_bytes: int | None = None,
        factors: Mapping[str, object] | None = None,
    ) -> None:
        """Hold the record; `encode` and `decode` check it."""
        self.fingerprint = fingerprint
        self.kv_cache_memory_bytes = kv_cache_memory_bytes
        self.free_memory_baseline = free_memory_baseline
        self.weights_bytes = weights_bytes
        self.factors: Mapping[str, object] = {} if factors is None else factors


def is_size(value: object) -> TypeGuard[int]:
    """Whether `value` is a positive integer; a boolean and a float are not (GATE-03)."""
    return type(value) is int and value > 0


def encode(plan: Plan) -> bytes:
    """The one spelling of a plan, at most `MAX_PLAN_BYTES` long.

    Factors that would push it over the bound are left out: they serve `explain` alone.
    """
    data = _spell(plan, plan.factors)
    return data if len(data) <= MAX_PLAN_BYTES else _spell(plan, {})


def decode(data: bytes, fingerprint: str) -> Plan:
    """The plan that `data` spells, if it is one for `fingerprint`.

    Raises:
        NoPlanError: whatever else the bytes may be.
    """
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NoPlanError(f"it is not JSON ({_short(error)})") from None
    if type(body) is not dict:
        raise NoPlanError("it is not a JSON object")
    schema, key = body.get("schema"), body.get("fingerprint")
    if type(schema) is not int or schema != PLAN_SCHEMA_VERSION:
        raise NoPlanError(f"its schema is not {PLAN_SCHEMA_VERSION}")
    if key != fingerprint:
        raise NoPlanError("it was saved under another key")
    kv, baseline = body.get("kv_cache_memory_bytes"), body.get("free_memory_baseline")
    weights, factors = body.get("weights_bytes"), body.get("factors")
    if (
        not is_size(kv)
        or not is_size(baseline)
        or not (weights is None or type(weights) is int)
        or type(factors) is not dict
    ):
        raise NoPlanError("a field is missing or has the wrong type")
    if _sealed(data.rpartition(_SEAL)[0] + b"}") != data:
        raise NoPlanError("its checksum or its form is not what a save writes")
    return Plan(fingerprint, kv, baseline, weights, factors)


def _spell(plan: Plan, factors: Mapping[str, object]) -> bytes:
    body = {
        "schema": PLAN_SCHEMA_VERSION,
        "fingerprint": plan.fingerprint,
        "kv_cache_memory_bytes": plan.kv_cache_memory_bytes,
        "free_memory_baseline": plan.free_memory_baseline,
        "weights_bytes": plan.weights_bytes,
        "factors": factors,
    }
    return _sealed(json.dumps(body).encode())


def _sealed(body: bytes) -> bytes:
    """The JSON object `body` with its own checksum as last member."""
    checksum = hashlib.sha256(body).hexdigest()[:32]
    return b'%s%s%s"}' % (body[:-1], _SEAL, checksum.encode())


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:80]
