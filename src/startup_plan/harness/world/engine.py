# SPDX-License-Identifier: Apache-2.0
"""A simulated engine: a configuration, an environment, and ranks placed on devices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

from startup_plan.harness.stubs import configs as stub_configs

if TYPE_CHECKING:
    from collections.abc import Callable

_PLAIN: Final = frozenset({str, int, float, bool})
UTILIZATION: Final = "cache_config.gpu_memory_utilization"


@final
class Engine:
    """One vLLM deployment as an operator would describe it.

    Args:
        name: how stories call it.
        world_size: ranks of one group (tensor times pipeline parallel).
        placement: device of each rank as vLLM counts (its local rank); rank i on device i unless
            told otherwise. Which card that is depends on what vLLM was assigned and on what the
            process sees (`stubs/numbering.py`).
        replica: data-parallel rank of this engine among `replicas`.
        replicas: number of data-parallel replicas.

    Attributes:
        environ: variables of its processes besides the two of the startup plan.
        explicit: `--kv-cache-memory` in bytes, or None.
        enabled: whether `VLLM_ENABLE_STARTUP_PLAN` is 1 or 0; None leaves the variable unset.
        heavier_weights: bytes that the checkpoint under the same path has grown by (GATE-08).
        rewrites: settings that the boot itself rewrites between look-up and save (KEY-16).
        shows_weights: whether the worker exposes the size of the loaded weights.
        hash_override: a config hash that does not follow the settings, to vary either alone.
        moved: path or variable -> bytes that its present value moves.
        truth: every input that must tell two keys apart and is not at its default.
    """

    __slots__ = (
        "_copies",
        "_copy",
        "config",
        "enabled",
        "environ",
        "explicit",
        "hash_override",
        "heavier_weights",
        "moved",
        "name",
        "placement",
        "replica",
        "rewrites",
        "shows_weights",
        "truth",
        "world_size",
    )

    def __init__(
        self,
        name: str = "engine",
        *,
        world_size: int = 1,
        placement: tuple[int, ...] | None = None,
        replica: int = 0,
        replicas: int = 1,
    ) -> None:
        """An engine with default settings, the feature on, and no explicit KV-cache size."""
        self.name = name
        self.world_size = world_size
        self.placement = tuple(range(world_size)) if placement is None else placement
        self.replica = replica
        self.environ: dict[str, str] = {}
        self.explicit: int | None = None
        self.enabled: bool | None = True
        self.heavier_weights = 0
        self.rewrites: tuple[tuple[str, Any], ...] = ()
        self.shows_weights = True
        self.hash_override: str | None = None
        self.moved: dict[str, int] = {}
        self.truth: dict[str, object] = {}
        self.config: Any = stub_configs.make_config()
        parallel = self.config.parallel_config
        parallel.world_size = parallel.tensor_parallel_size = world_size
        parallel.data_parallel_size = replicas
        parallel.data_parallel_rank = parallel.data_parallel_index = replica
        parallel.data_parallel_rank_local = replica
        if replicas > 1:
            parallel.is_moe_model = True

        self._copy: Callable[[], Any] | None = None
        self._copies = 0

    def new_config(self) -> Any:
        """The configuration as a new process would parse it: independent of all others."""
        # Most engines boot once: what makes later copies cheap costs more than one copy.
        if self._copies:
            if self._copy is None:
                self._copy = stub_configs._copier(self.config)
            config: Any = self._copy() if self._copy is not None else None
            stub_configs._link(config)
        else:
            config = stub_configs.copy_config(self.config)
        self._copies += 1
        config.cache_config.kv_cache_memory_bytes = self.explicit
        config._hash_override = self.hash_override
        return config

    @property
    def utilization(self) -> float:
        """`gpu_memory_utilization`."""
        return float(self.config.cache_config.gpu_memory_utilization)

    def set(self, path: str, value: Any) -> None:
        """Construct the engine with another value of one setting; physics follows."""
        value = stub_configs.taken_by(path, value)
        stub_configs.set_setting(self.config, path, value)
        # Copies follow plain values by themselves; only another structure asks for a new copier.
        if type(value) not in _PLAIN or type(stub_configs.setting(path).default) not in _PLAIN:
            self._copy, self._copies = None, 0
        setting = stub_configs.setting(path)
        counts = (setting.moves or setting.hashed) and value != setting.default
        self._note(path, value, setting.bytes_at(value), counts=bool(counts))

    def assign(self, cards: tuple[int, ...]) -> None:
        """Give this engine some of the host's cards, as a data-parallel launcher or Ray does."""
        self.config.parallel_config.assigned_physical_gpu_ids = list(cards)
        self._copy, self._copies = None, 0

    @property
    def assigned(self) -> tuple[int, ...] | None:
        """The cards that this engine was given, None where it may use all that it sees."""
        cards = self.config.parallel_config.assigned_physical_gpu_ids
        return None if cards is None else tuple(cards)

    def setenv(self, name: str, value: str | None) -> None:
        """Set or unset one environment variable; physics follows."""
        if value is None:
            self.environ.pop(name, None)
        else:
            self.environ[name] = value
        variable = stub_configs.variable(name)
        if variable is not None:
            counts = bool(variable.moves) and value is not None
            self._note(name, value, variable.bytes_at(value), counts=counts)

    def _note(self, name: str, value: Any, moved: int, *, counts: bool) -> None:
        if moved:
            self.moved[name] = moved
        else:
            self.moved.pop(name, None)
        if counts and name != UTILIZATION:
            self.truth[name] = value
        else:
            self.truth.pop(name, None)
