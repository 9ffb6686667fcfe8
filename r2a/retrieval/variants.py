"""What an agent can hold in the place of retrieval: Algorithm 1, its ablations A-1 and A-2, or nothing."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from r2a.config import RetrievalConfig
from r2a.networks.dense import RESIDUALS, GatedResidual, SumResidual
from r2a.retrieval.auxiliary import AuxiliaryHeads
from r2a.retrieval.bottleneck import BOTTLENECKS, KL_REDUCTIONS, GaussianBottleneck, IdentityBottleneck
from r2a.retrieval.process import Process
from r2a.retrieval.selection import Nearby, best_by_return, nearest_states
from r2a.retrieval.steps import SLOT_INPUTS, AgentUpdate, Reader, SlotInput, SlotInputTransformer, SlotStart, SlotUpdate
from r2a.retrieval.summarise import Summariser
from r2a.types import EncodedBatch, Reading, RetrievalBatch, RetrievalState, Retrieved, Summaries, Trajectory


def nothing_read(state: RetrievalState, z: Float[Array, "K d_m"]) -> Reading:
    """The reading of a variant that reads nothing; z is what its slots hold."""
    nothing = jnp.zeros((z.shape[0], 0))
    return Reading(state, z, jnp.zeros(z.shape[0]), nothing.astype(int), nothing.astype(int), nothing)


class AgentQueryProcess(eqx.Module):
    """Ablation A-1: no slots; the query is a function of the agent state, and step 6 only adds what was read."""

    reader: Reader
    bottleneck: GaussianBottleneck | IdentityBottleneck
    take_in: GatedResidual | SumResidual
    config: RetrievalConfig = eqx.field(static=True)

    def __init__(self, config: RetrievalConfig, state_size: int, key: PRNGKeyArray):
        k1, k2, k3 = jax.random.split(key, 3)
        self.reader = Reader(config, state_size, k1)
        self.bottleneck = BOTTLENECKS[config.bottleneck](config, k2)
        self.take_in = RESIDUALS[config.update](state_size, config.slot_size, k3, config.gate_bias)
        self.config = config

    def start(self, key: PRNGKeyArray | None) -> RetrievalState:
        """A state that stays zero: r(Z | m) is then a learned constant Gaussian."""
        del key
        empty = jnp.zeros((1, self.config.slot_size))
        return RetrievalState(empty, empty, jnp.zeros((), jnp.int32))

    def read(
        self, state: RetrievalState, s: Float[Array, " d"], encoded: EncodedBatch, key: PRNGKeyArray | None
    ) -> Reading:
        """Steps 2 to 4, with a query from the agent state; consumes `key`."""
        q = self.reader.query(s)[None]
        chosen = self.reader.identify(q, encoded)
        g, alpha = self.reader.read(q, chosen, encoded)
        z, price = self.bottleneck(g, state.slots, key)
        kl = KL_REDUCTIONS[self.config.kl_reduction](price, axis=-1)
        return Reading(state._replace(age=state.age + 1), z, kl, chosen.trajectory, chosen.step, alpha)

    def deliver(self, s: Float[Array, " d"], reading: Reading) -> Retrieved:
        """What was read is added to the agent state."""
        u = reading.z[0]
        return Retrieved.of(reading, self.take_in(s, u), u, jnp.ones(1))


class Retrieval(eqx.Module):
    """The full set-up of Sec. 2: summariser, auxiliary heads, and the process that reads the summaries.

    The parts are apart because they are trained apart: the bottleneck's price moves only `process`, the auxiliary
    losses only `summariser`, `auxiliary` and the agent's encoder and memory.
    """

    summariser: Summariser
    auxiliary: AuxiliaryHeads
    process: Process | AgentQueryProcess
    config: RetrievalConfig = eqx.field(static=True)

    def __init__(self, config: RetrievalConfig, state_size: int, action_size: int, key: PRNGKeyArray):
        k1, k2, k3 = jax.random.split(key, 3)
        process = {"full": Process, "agent_query": AgentQueryProcess}[config.variant]
        self.summariser = Summariser(config, state_size, action_size, k1)
        self.auxiliary = AuxiliaryHeads(config, action_size, k2)
        self.process = process(config, state_size, k3)
        self.config = config

    def prepare(
        self, batch: RetrievalBatch | None, states_along: Callable[[Trajectory], Float[Array, "N L d"]]
    ) -> tuple[EncodedBatch, dict[str, Float[Array, ""]]]:
        """Keys and values, once for all the steps that will read them, and the auxiliary losses of the summaries."""
        assert batch is not None
        if self.config.ranking == "return":  # only what will be chosen has to be encoded
            batch = best_by_return(batch, self.config.k_traj)
        trajectories = batch.trajectories
        states, summaries, auxiliary = self.summarise(trajectories, states_along)
        keys, values = self.process.reader.keys_and_values(summaries)
        encoded = EncodedBatch(
            states,
            summaries,
            keys,
            values,
            trajectories.valid,
            trajectories.trajectory_id,
            trajectories.task_id,
        )
        return encoded, auxiliary

    def summarise(
        self, trajectories: Trajectory, states_along: Callable[[Trajectory], Float[Array, "N L d"]]
    ) -> tuple[Float[Array, "N L d"], Summaries, dict[str, Float[Array, ""]]]:
        """States and summaries of all trajectories, and the auxiliary losses of those that teach.

        Where not all do, every so many-th does, so that each task has its share.
        """

        def encode(some: Trajectory) -> tuple[Float[Array, "n L d"], Summaries]:
            states = states_along(some)
            return states, jax.vmap(self.summariser)(some, states)

        total, every = len(trajectories.task_id), one_teaches_in(len(trajectories.task_id), self.config)
        teachers = jax.tree.map(lambda a: a[::every], trajectories)
        taught = encode(teachers)
        if every == 1:
            return *taught, self.auxiliary.losses(teachers, taught[1])
        grouped = jax.tree.map(lambda a: a.reshape(total // every, every, *a.shape[1:]), trajectories)
        others = jax.tree.map(lambda a: a[:, 1:].reshape(total - total // every, *a.shape[2:]), grouped)
        read = jax.lax.stop_gradient(encode(others))

        def in_order(first: Array, rest: Array) -> Array:
            rest = rest.reshape(total // every, every - 1, *rest.shape[1:])
            return jnp.concatenate([first[:, None], rest], axis=1).reshape(total, *first.shape[1:])

        states, summaries = jax.tree.map(in_order, taught, read)
        return states, summaries, self.auxiliary.losses(teachers, taught[1])

    def detach(self, encoded: EncodedBatch | None) -> EncodedBatch:
        """The same batch, but with nothing upstream of the process's own parameters for a gradient to reach."""
        assert encoded is not None
        states, summaries = jax.lax.stop_gradient((encoded.states, encoded.summaries))
        keys, values = self.process.reader.keys_and_values(summaries)
        return encoded._replace(states=states, summaries=summaries, keys=keys, values=values)

    def nearby(self, s: Float[Array, " d"], encoded: EncodedBatch | None) -> Nearby | None:
        """The states like the agent's own, if only those can be read. No slot has a say in it."""
        assert encoded is not None
        return nearest_states(s, encoded, self.config.num_neighbours) if self.config.num_neighbours else None

    def start(self, key: PRNGKeyArray | None) -> RetrievalState:
        """The slots at an episode's start; consumes `key`."""
        return self.process.start(key)

    def read(
        self, state: RetrievalState, s: Float[Array, " d"], encoded: EncodedBatch | None, key: PRNGKeyArray | None
    ) -> Reading:
        """What the process reads for one agent state, and its slots after that; consumes `key`."""
        assert encoded is not None
        return self.process.read(state, s, encoded, key)

    def deliver(self, s: Float[Array, " d"], reading: Reading) -> Retrieved:
        """The agent state with what was read for it."""
        return self.process.deliver(s, reading)


class WithoutBatch(eqx.Module):
    """A variant that reads no retrieval batch."""

    def prepare(
        self, batch: RetrievalBatch | None, states_along: Callable[[Trajectory], Float[Array, "N L d"]]
    ) -> tuple[None, dict[str, Float[Array, ""]]]:
        """Nothing to read, and nothing to predict from it: every auxiliary loss is zero."""
        del batch, states_along
        return None, {name: jnp.zeros(()) for name in AuxiliaryHeads.NAMES}

    def detach(self, encoded: EncodedBatch | None) -> None:
        """There is nothing to detach."""

    def nearby(self, s: Float[Array, " d"], encoded: EncodedBatch | None) -> None:
        """There is nothing to be near to."""


class SlotsOnly(WithoutBatch):
    """Ablation A-2: slots without anything to retrieve; step 6 reads the slots themselves."""

    slot_start: SlotStart
    slot_input: SlotInput | SlotInputTransformer
    slot_update: SlotUpdate
    agent_update: AgentUpdate

    def __init__(self, config: RetrievalConfig, state_size: int, action_size: int, key: PRNGKeyArray):
        del action_size
        k1, k2, k3, k4 = jax.random.split(key, 4)
        self.slot_start = SlotStart(config, k1)
        self.slot_input = SLOT_INPUTS[config.slot_input](config, state_size, k2)
        self.slot_update = SlotUpdate(config, k3)
        self.agent_update = AgentUpdate(config, state_size, k4)

    def start(self, key: PRNGKeyArray | None) -> RetrievalState:
        """The slots at an episode's start; consumes `key`."""
        return self.slot_start(key)

    def read(
        self, state: RetrievalState, s: Float[Array, " d"], encoded: EncodedBatch | None, key: PRNGKeyArray | None
    ) -> Reading:
        """Steps 1 and 5."""
        del encoded, key
        m_hat = self.slot_input(s, state.slots)
        m = self.slot_update.interact(m_hat, m_hat)
        return nothing_read(RetrievalState(m, state.last_read, state.age + 1), m)

    def deliver(self, s: Float[Array, " d"], reading: Reading) -> Retrieved:
        """Step 6."""
        s_tilde, u, gamma = self.agent_update(s, reading.z)
        return Retrieved.of(reading, s_tilde, u, gamma)


class NoRetrieval(WithoutBatch):
    """The plain agent: the agent state passes through unchanged."""

    def __init__(self, config: RetrievalConfig, state_size: int, action_size: int, key: PRNGKeyArray):
        del config, state_size, action_size, key

    def start(self, key: PRNGKeyArray | None) -> RetrievalState:
        """A state with no slots."""
        del key
        return RetrievalState(jnp.zeros((0, 0)), jnp.zeros((0, 0)), jnp.zeros((), jnp.int32))

    def read(
        self, state: RetrievalState, s: Float[Array, " d"], encoded: EncodedBatch | None, key: PRNGKeyArray | None
    ) -> Reading:
        """Nothing."""
        del s, encoded, key
        return nothing_read(state, state.slots)

    def deliver(self, s: Float[Array, " d"], reading: Reading) -> Retrieved:
        """The agent state as it is."""
        return Retrieved.of(reading, s, jnp.zeros_like(s), jnp.zeros(0))


class AuxiliaryOnly(NoRetrieval):
    """The plain agent with the auxiliary losses: a control for what retrieval owes to them, and not to reading."""

    summariser: Summariser
    auxiliary: AuxiliaryHeads
    config: RetrievalConfig = eqx.field(static=True)

    def __init__(self, config: RetrievalConfig, state_size: int, action_size: int, key: PRNGKeyArray):
        k1, k2 = jax.random.split(key)
        self.summariser = Summariser(config, state_size, action_size, k1)
        self.auxiliary = AuxiliaryHeads(config, action_size, k2)
        self.config = config

    def prepare(
        self, batch: RetrievalBatch | None, states_along: Callable[[Trajectory], Float[Array, "N L d"]]
    ) -> tuple[None, dict[str, Float[Array, ""]]]:
        """Nothing to read; the auxiliary losses of what would have been."""
        assert batch is not None
        if self.config.ranking == "return":
            batch = best_by_return(batch, self.config.k_traj)
        every = one_teaches_in(len(batch.trajectories.task_id), self.config)
        teachers = jax.tree.map(lambda a: a[::every], batch.trajectories)
        summaries = jax.vmap(self.summariser)(teachers, states_along(teachers))
        return None, self.auxiliary.losses(teachers, summaries)


def one_teaches_in(trajectories: int, config: RetrievalConfig) -> int:
    """One in so many of a batch's trajectories teaches encoder and summariser."""
    every = config.trajectories // config.num_grad_trajectories if config.num_grad_trajectories else 1
    return 1 if trajectories % every else every


VARIANTS = {
    "none": NoRetrieval,
    "full": Retrieval,
    "agent_query": Retrieval,
    "slots_only": SlotsOnly,
    "auxiliary_only": AuxiliaryOnly,
}
