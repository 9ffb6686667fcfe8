"""Convolutions against loops, the paper's ResNet-47 layer by layer, and encoders inside agents."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from r2a.agents.agent import only_seen, parameter_count
from r2a.agents.build import build_agent
from r2a.config import AgentConfig, CoreConfig, EncoderConfig, RetrievalConfig
from r2a.environments.minatar.features import BoardConvolution
from r2a.errors import UserError
from r2a.networks.dense import Linear
from r2a.networks.encoders import ENCODERS, Encoder, build_encoder, register_encoder
from r2a.networks.pixels import Convolution, GroupNorm, ResidualBlock, as_images
from r2a.types import Frames

NOTHING_TOLD = jnp.zeros(0, jnp.uint8)
SHAPES = {"resnet47": (4, 84, 84), "strided": (4, 84, 84), "strided_half": (2, 42, 42), "minatar": (10, 10, 6)}
HIDDEN = {"resnet47": (512,), "strided": (256,), "strided_half": (128,), "minatar": (128,)}


def encoder_of(features, shape=None):
    config = EncoderConfig(features=features, hidden=HIDDEN[features])
    return build_encoder(config, shape or SHAPES[features], jax.random.key(0))


def shapes_of(features):
    """The encoder without its numbers."""
    return eqx.filter_eval_shape(lambda: encoder_of(features))


def pictures(*shape):
    return jnp.asarray(np.random.default_rng(0).integers(0, 256, shape), jnp.uint8)


def modules_of(tree, kind):
    found = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, kind))
    return [node for node in found if isinstance(node, kind)]


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (4, 2), (1, 1)])
def test_a_convolution_is_a_sum_over_its_window(kernel, stride):
    layer = Convolution(2, 5, kernel, jax.random.key(1), stride=stride, padding="VALID")
    layer = eqx.tree_at(lambda layer: layer.bias, layer, jnp.arange(5.0))
    images = np.random.default_rng(0).normal(size=(3, 9, 9, 2)).astype(np.float32)
    size = (9 - kernel) // stride + 1
    expected = np.zeros((3, size, size, 5))
    for i in range(size):
        for j in range(size):
            window = images[:, stride * i : stride * i + kernel, stride * j : stride * j + kernel]
            expected[:, i, j] = np.einsum("nhwc,hwcd->nd", window, layer.weight) + np.arange(5)
    np.testing.assert_allclose(layer(jnp.asarray(images)), expected, atol=1e-5)


def test_group_norm_takes_eight_channels_of_a_picture_together():
    images = np.random.default_rng(0).normal(2.0, 3.0, size=(2, 5, 4, 16)).astype(np.float32)
    norm = eqx.tree_at(lambda norm: norm.shift, GroupNorm(16, 8), jnp.arange(16.0))
    expected = np.empty_like(images)
    for n in range(2):
        for channels in (slice(0, 8), slice(8, 16)):
            part = images[n, :, :, channels]
            expected[n, :, :, channels] = (part - part.mean()) / np.sqrt(part.var() + 1e-5)
    np.testing.assert_allclose(norm(jnp.asarray(images)), expected + np.arange(16), atol=1e-4)


def test_resnet47_has_47_layers_as_the_appendix_lists_them():
    encoder = shapes_of("resnet47")
    assert len(modules_of(encoder.torso, Convolution)) + len(modules_of(encoder.mlp, Linear)) == 47
    groups = encoder.torso.groups
    assert [len(group.blocks) for group in groups] == [2, 4, 6, 2]
    for group, channels, inner in zip(groups, (64, 128, 256, 512), (16, 32, 64, 128), strict=True):
        assert (group.halve.weight.shape[:2], group.halve.stride) == ((3, 3), 2)
        assert group.norm.group_size == 8
        for block in group.blocks:
            assert [layer.weight.shape[0] for layer in block.layers] == [1, 3, 1]
            assert [layer.weight.shape[-1] for layer in block.layers] == [inner, inner, channels]
            assert {layer.stride for layer in block.layers} == {1}


def test_resnet47_has_twelve_million_parameters():
    def convolution(kernel, c_in, c_out):
        return kernel * kernel * c_in * c_out + c_out

    expected, c_in = 0, 4
    for blocks, outer, inner in ((2, 64, 16), (4, 128, 32), (6, 256, 64), (2, 512, 128)):
        block = convolution(1, outer, inner) + convolution(3, inner, inner) + convolution(1, inner, outer)
        expected += convolution(3, c_in, outer) + blocks * block + 2 * outer  # and a norm's scale and shift
        c_in = outer
    expected += 6 * 6 * 512 * 512 + 512
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes_of("resnet47"))) == expected == 12_049_152


def test_resnet47_halves_the_picture_four_times():
    images = jax.ShapeDtypeStruct((7, 84, 84, 4), jnp.float32)
    sizes = []
    for group in shapes_of("resnet47").torso.groups:
        images = eqx.filter_eval_shape(lambda group, images: group(images), group, images)
        sizes.append(images.shape[1:])
    assert sizes == [(42, 42, 64), (21, 21, 128), (11, 11, 256), (6, 6, 512)]


@pytest.mark.parametrize("features", SHAPES)
def test_any_leading_axes_become_vectors(features):
    encoder = shapes_of(features)
    for leading in ((), (5,), (2, 3)):
        seen = jax.ShapeDtypeStruct((*leading, *SHAPES[features]), jnp.uint8)
        code = eqx.filter_eval_shape(lambda encoder, seen: encoder(seen, NOTHING_TOLD), encoder, seen)
        assert code.shape == (*leading, HIDDEN[features][-1])
        assert code.dtype == jnp.float32


def test_board_convolution_by_rows():
    layer = BoardConvolution(6, jax.random.key(0))
    layer = eqx.tree_at(lambda b: b.layer.bias, layer, jax.random.normal(jax.random.key(1), (16,)))
    boards = jax.random.bernoulli(jax.random.key(2), 0.3, (5, 10, 10, 6)).astype(jnp.float32)

    def plain(layer: BoardConvolution) -> jax.Array:
        return jax.nn.relu(layer.layer(boards))

    np.testing.assert_allclose(layer(boards), plain(layer), rtol=1e-5, atol=1e-6)
    gradients = [jax.grad(lambda b, f=f: jnp.sin(f(b)).sum())(layer) for f in (lambda b: b(boards), plain)]
    for one, other in zip(*map(jax.tree.leaves, gradients), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("features", ["strided", "strided_half", "minatar"])
def test_a_picture_is_encoded_the_same_alone_and_in_company(features):
    encoder = encoder_of(features)
    seen = pictures(2, 3, *SHAPES[features])
    together = encoder(seen, NOTHING_TOLD)
    mapped = jax.vmap(jax.vmap(lambda one: encoder(one, NOTHING_TOLD)))(seen)
    np.testing.assert_allclose(together, mapped, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(together[1, 2], encoder(seen[1, 2], NOTHING_TOLD), rtol=1e-4, atol=1e-4)


def test_mapped_over_it_stays_one_convolution_of_a_larger_batch():
    encoder = encoder_of("strided")
    mapped = jax.vmap(jax.vmap(lambda one: encoder(one, NOTHING_TOLD)))
    steps = jax.make_jaxpr(mapped)(pictures(2, 3, 4, 84, 84)).eqns
    first, second = (step for step in steps if step.primitive.name == "conv_general_dilated")
    assert first.invars[0].aval.shape == (6, 84, 84, 4)
    assert second.invars[0].aval.shape == (6, 20, 20, 16)
    for step in (first, second):
        assert step.params["feature_group_count"] == step.params["batch_group_count"] == 1


def test_a_block_that_has_learnt_nothing_to_add_adds_nothing():
    block = ResidualBlock(8, 4, jax.random.key(0))
    block = eqx.tree_at(lambda block: block.layers[2].weight, block, jnp.zeros((1, 1, 4, 8)))
    images = jax.random.normal(jax.random.key(1), (2, 6, 6, 8))
    assert jnp.array_equal(block(images), images)


@pytest.mark.parametrize("features", SHAPES)
def test_everything_is_learnt(features):
    shape = (4, 20, 20) if features == "resnet47" else SHAPES[features]
    encoder = encoder_of(features, shape)
    seen = pictures(2, *shape)
    gradients = jax.jit(jax.grad(lambda encoder: jnp.square(encoder(seen, NOTHING_TOLD)).sum()))(encoder)
    for gradient in jax.tree.leaves(gradients):
        assert bool(jnp.isfinite(gradient).all())
        assert float(jnp.abs(gradient).max()) > 0


def test_bytes_are_scaled_and_flags_are_not():
    seen = pictures(2, 4, 5, 6)
    images = as_images(seen, frames_first=True)
    assert images.shape == (2, 5, 6, 4)
    np.testing.assert_allclose(images[1, 2, 3], seen[1, :, 2, 3] / 255.0)
    flags = as_images(seen > 128, frames_first=False)
    assert flags.shape == seen.shape
    assert set(np.unique(flags)) == {0.0, 1.0}


def test_an_agent_is_built_on_pictures_and_learns_from_them():
    config = AgentConfig(
        encoder=EncoderConfig(features="minatar", hidden=(16,)),
        core=CoreConfig(kind="gru", size=16),
        retrieval=RetrievalConfig(variant="none"),
    )
    agent = build_agent(config, (10, 10, 4), 6, jax.random.key(0))
    steps = 5
    frames = Frames(
        pictures(steps, 10, 10, 4) > 128,
        NOTHING_TOLD,
        jnp.zeros(steps, jnp.int32),
        jnp.zeros(steps),
        jnp.arange(steps) == 0,
    )

    def loss(agent):
        return jnp.square(agent.unroll(agent.initial_state(None), frames, None, None).q_values).sum()

    gradients = jax.grad(loss)(agent)
    assert all(float(jnp.abs(leaf).max()) > 0 for leaf in jax.tree.leaves(gradients.encoder))


def test_the_papers_agent_for_atari_can_be_built():
    config = AgentConfig(
        encoder=EncoderConfig(features="resnet47", hidden=(512,)),
        core=CoreConfig(kind="gru", size=512),
        retrieval=RetrievalConfig(slots=8, summary_size=512, trajectories=448),
    )
    agent = jax.eval_shape(lambda: build_agent(config, (4, 84, 84), 18, jax.random.key(0)))
    assert parameter_count(agent) > 12_049_152


def test_what_is_no_picture_is_refused():
    with pytest.raises(UserError, match=r"encoder\.features is 'strided', but observations of shape \(11,\) are no"):
        build_agent(AgentConfig(encoder=EncoderConfig(features="strided")), 11, 7, jax.random.key(0))


def test_what_nobody_registered_is_refused_with_the_names_of_what_there_is():
    with pytest.raises(UserError, match=r"encoder\.features is 'eyes', but it must be one of .*minatar.*raw, resnet47"):
        build_agent(AgentConfig(encoder=EncoderConfig(features="eyes")), 11, 7, jax.random.key(0))


def test_a_new_encoder_is_a_class_and_a_line(monkeypatch):
    monkeypatch.setattr("r2a.networks.encoders.ENCODERS", dict(ENCODERS))

    @register_encoder("sums")
    class Sums(Encoder):
        scale: jax.Array

        def __init__(self, config, observation_shape, key):
            self.scale = jnp.ones(config.hidden[-1])

        def __call__(self, observation, instruction):
            return observation.sum(-1, keepdims=True) * self.scale

    config = AgentConfig(EncoderConfig(features="sums", hidden=(3,)), retrieval=RetrievalConfig(variant="none"))
    agent = build_agent(config, 5, 2, jax.random.key(0))
    assert agent(agent.initial_state(None), only_seen(jnp.ones(5)), None, None).q_values.shape == (2,)


def test_the_colours_of_several_pictures_are_channels_side_by_side():
    seen = pictures(5, 2, 42, 42, 3)
    images = as_images(seen, frames_first=True)
    assert images.shape == (5, 42, 42, 6)
    np.testing.assert_allclose(images[3, 7, 9], np.concatenate([seen[3, 0, 7, 9], seen[3, 1, 7, 9]]) / 255.0, atol=1e-6)
    encoder = encoder_of("strided_half", (2, 42, 42, 3))
    one_by_one = [encoder(picture, NOTHING_TOLD) for picture in seen]
    np.testing.assert_allclose(encoder(seen, NOTHING_TOLD), jnp.stack(one_by_one), atol=1e-5)
    with pytest.raises(UserError, match="no pictures"):
        encoder_of("strided_half", (1, 2, 42, 42, 3))
