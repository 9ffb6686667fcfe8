"""What an agent makes of BabyAI: the cells it sees, and the words of its mission."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt8

from r2a.config import EncoderConfig
from r2a.environments.babyai.view import VIEW
from r2a.networks.dense import MLP, Linear
from r2a.networks.encoders import Encoder, register_encoder
from r2a.networks.recurrent import GRU

SYMBOLS = (11, 6, 4)
"""How many kinds of things, colours and states there are, as minigrid numbers them."""
UNSEEN, EMPTY, WALL, DOOR, KEY, BALL, BOX = 0, 1, 2, 4, 5, 6, 7
COLOURS, GREY, DOOR_STATES = range(6), 5, range(3)
CELLS = (
    *((UNSEEN, 0, 0), (EMPTY, 0, 0), (WALL, GREY, 0)),
    *((DOOR, colour, state) for colour in COLOURS for state in DOOR_STATES),
    *((thing, colour, 0) for thing in (KEY, BALL, BOX) for colour in COLOURS),
)
"""All that a cell can show: thing, colour, state. A test holds it against the real levels."""
DIRECTIONS = 4
VOCABULARY = 64
"""Words that a mission can be made of, at most; word 0 is none."""


def which_cell(shown: UInt8[Array, "*b 3"]) -> Int[Array, "*b"]:
    """The number of each cell in `CELLS`."""
    number = np.zeros(SYMBOLS, np.int32)
    for i, cell in enumerate(CELLS):
        number[cell] = i
    thing, colour, state = jnp.moveaxis(shown.astype(jnp.int32), -1, 0)
    return jnp.asarray(number)[thing, colour, state]


@register_encoder("babyai")
class InstructedEncoder(Encoder):
    """f_enc of BabyAI: a view of 7 x 7 cells, a direction, and a mission in words.

    The cells come first; the mission, read by a GRU, then scales and shifts their features (FiLM), twice: two inputs
    are never concatenated (App. implementation details).
    """

    words: Float[Array, "vocabulary c"]
    reader: GRU
    films: tuple[Linear, Linear]
    symbols: Linear
    cells: Linear
    direction: Float[Array, "directions d"]
    view: Linear
    mlp: MLP

    def __init__(self, config: EncoderConfig, observation_shape: tuple[int, ...], key: PRNGKeyArray):
        del observation_shape
        keys = jax.random.split(key, 9)
        size, first = config.cell_size, config.hidden[0]
        self.words = jax.random.normal(keys[0], (VOCABULARY, config.word_size))
        self.reader = GRU(config.word_size, config.word_size, keys[1])
        self.films = (Linear(config.word_size, 2 * size, keys[2]), Linear(config.word_size, 2 * size, keys[3]))
        self.symbols = Linear(sum(SYMBOLS), size, keys[4], gain=len(SYMBOLS) ** -0.5 * sum(SYMBOLS) ** 0.5)
        self.cells = Linear(size, size, keys[5], gain=2**0.5)
        self.direction = jax.random.normal(keys[6], (DIRECTIONS, first))
        self.view = Linear(VIEW * VIEW * size, first, keys[7], gain=2**0.5)
        self.mlp = MLP(config.hidden, keys[8], activate_last=True)

    def encode_instruction(self, instruction: UInt8[Array, " w"]) -> Float[Array, " c"]:
        """The mission in a vector: the GRU's state after the last word."""
        one_hot = jax.nn.one_hot(instruction, VOCABULARY)  # a gather's gradient would be a slow scatter
        return self.reader(one_hot @ self.words, instruction > 0)[-1]

    def __call__(self, observation: UInt8[Array, "*b n"], instruction: Float[Array, " c"]) -> Float[Array, "*b d"]:
        numbers = VIEW * VIEW * len(SYMBOLS)
        shown = observation[..., :numbers].reshape(*observation.shape[:-1], VIEW * VIEW, len(SYMBOLS))
        features = self.features_of_cells(instruction)[which_cell(shown)]
        direction = jax.nn.one_hot(observation[..., numbers], DIRECTIONS) @ self.direction
        flat = features.reshape(*observation.shape[:-1], -1)
        return self.mlp(jax.nn.relu(self.view(flat) + direction))

    def features_of_cells(self, instruction: Float[Array, " e"]) -> Float[Array, "kinds c"]:
        """What each kind of cell means to the mission.

        There are 39 kinds, but 49 cells in each of many views: looking them up takes a third of the time.
        """
        one_hots = [np.eye(count, dtype=np.float32)[[cell[i] for cell in CELLS]] for i, count in enumerate(SYMBOLS)]
        features = self.symbols(jnp.asarray(np.concatenate(one_hots, axis=-1)))
        features = jax.nn.relu(self.film(0, features, instruction))
        return jax.nn.relu(self.film(1, self.cells(features), instruction))

    def film(self, layer: int, features: Float[Array, "*b c"], instruction: Float[Array, " e"]) -> Float[Array, "*b c"]:
        """Scaled and shifted as the mission says."""
        scale, shift = jnp.split(self.films[layer](instruction), 2, axis=-1)
        return features * (1.0 + scale) + shift
