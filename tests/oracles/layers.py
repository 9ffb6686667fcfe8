"""The networks' layers in plain numpy, one vector at a time.

`p` is a dict from the names of a layer's parameters to their arrays; `part` picks out those of a layer within it.
"""

from __future__ import annotations

import numpy as np


def part(p, name):
    return {key[len(name) + 1 :]: array for key, array in p.items() if key.startswith(name + ".")}


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(x))


def softmax(logits):
    powers = [np.exp(logit - max(logits)) for logit in logits]
    return [power / sum(powers) for power in powers]


def linear(p, x):
    y = x @ p["weight"]
    return y + p["bias"] if "bias" in p else y


def mlp(p, x, activate_last=False):
    count = 1 + max(int(name.split(".")[1]) for name in p)
    for i in range(count):
        x = linear(part(p, f"layers.{i}"), x)
        if activate_last or i < count - 1:
            x = np.maximum(x, 0.0)
    return x


def layer_norm(p, x):
    return (x - np.mean(x)) / np.sqrt(np.var(x) + 1e-5) * p["scale"] + p["shift"]


def gru_cell(p, x, h):
    """The columns of both matrices are those of the reset gate, of the update gate, of the candidate."""
    reset_x, update_x, candidate_x = np.split(linear(part(p, "from_input"), x), 3)
    reset_h, update_h, candidate_h = np.split(linear(part(p, "from_state"), h), 3)
    reset = sigmoid(reset_x + reset_h)
    update = sigmoid(update_x + update_h)
    candidate = np.tanh(candidate_x + reset * (candidate_h + p["candidate_bias"]))
    return (1 - update) * candidate + update * h


def residual(p, x, y):
    """x + y as printed in Algorithm 1, or with the appendix's GRU-style gate and layer norm."""
    if "norm.scale" not in p:
        return x + (linear(part(p, "project"), y) if "project.weight" in p else y)
    reset_y, gate_y, candidate_y = np.split(linear(part(p, "from_update"), layer_norm(part(p, "norm"), y)), 3)
    reset_x, gate_x = np.split(linear(part(p, "from_state"), x), 2)
    reset, gate = sigmoid(reset_y + reset_x), sigmoid(gate_y + gate_x)
    candidate = np.tanh(candidate_y + linear(part(p, "candidate_from_state"), reset * x))
    return (1 - gate) * x + gate * candidate


def attend(p, x, ys):
    """One head: x asks, the ys answer; also the weights."""
    query = linear(part(p, "query"), x)
    weights = softmax([query @ linear(part(p, "key"), y) / np.sqrt(len(query)) for y in ys])
    return sum(weight * linear(part(p, "value"), y) for weight, y in zip(weights, ys, strict=True)), weights


def attend_with_heads(p, x, ys, heads):
    """Several heads side by side; nothing to read gives nothing."""
    query = np.split(linear(part(p, "query"), x), heads)
    keys = [np.split(linear(part(p, "key"), y), heads) for y in ys]
    values = [np.split(linear(part(p, "value"), y), heads) for y in ys]
    read = []
    for head in range(heads):
        total = np.zeros_like(query[head])
        if ys:
            weights = softmax([query[head] @ key[head] / np.sqrt(len(query[head])) for key in keys])
            for weight, value in zip(weights, values, strict=True):
                total = total + weight * value[head]
        read.append(total)
    return linear(part(p, "out"), np.concatenate(read))


def transformer_block(p, xs, visible, heads=4):
    """`visible[i]` lists the places that place i may read."""
    normed = [layer_norm(part(p, "norm_attention"), x) for x in xs]
    out = []
    for i, x in enumerate(xs):
        x = x + attend_with_heads(part(p, "attention"), normed[i], [normed[j] for j in visible[i]], heads)
        out.append(x + mlp(part(p, "feedforward"), layer_norm(part(p, "norm_feedforward"), x)))
    return out


def q_values(p, state, z, heads):
    """Q(s, z, a): the state attends over what was retrieved, if anything can be."""
    if part(p, "attend"):
        state = state + attend_with_heads(part(p, "attend"), state, list(z), heads)
    return mlp(part(p, "mlp"), state)
