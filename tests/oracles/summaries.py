"""The summaries h and b of a trajectory, and the auxiliary losses on them (Sec. 2.2), as loops over the steps."""

from __future__ import annotations

import numpy as np
from oracles.layers import gru_cell, layer_norm, linear, part, residual, sigmoid, softmax, transformer_block


def embed(p, state, action, reward):
    """What is summarised of a step; action None is no action. A reward beyond 1 counts as 1 and its logarithm."""
    if abs(reward) > 1:
        reward = np.sign(reward) * (1 + np.log(abs(reward)))
    total = linear(part(p, "state"), state) + reward * p["reward"]
    if action is not None:
        total = total + p["action"][action]
    return np.maximum(total, 0.0)


def run(p, kind, inputs, valid, order):
    """The recurrence `kind` over the steps in the given order; a step that is not valid changes nothing."""
    if kind == "transformer":
        return run_transformer(p, inputs, valid, order)
    size = len(p["cell.candidate_bias"]) if kind == "gru" else p["project.weight"].shape[1] // 2
    state, out = np.zeros(size), [None] * len(inputs)
    for t in order:
        if valid[t]:
            if kind == "gru":
                state = gru_cell(part(p, "cell"), inputs[t], state)
            else:
                gate, candidate = np.split(linear(part(p, "project"), inputs[t]), 2)
                state = (1 - sigmoid(gate)) * state + sigmoid(gate) * candidate
        out[t] = state
    return out


def run_transformer(p, inputs, valid, order):
    order = list(order)
    size = len(inputs[0])
    xs = []
    for t, x in enumerate(inputs):
        rates = [1e4 ** (-2 * i / size) for i in range(size // 2)]
        xs.append(x + np.array([np.sin(t * rate) for rate in rates] + [np.cos(t * rate) for rate in rates]))
    visible = [[j for j in order[: order.index(t) + 1] if valid[j]] for t in range(len(inputs))]
    for layer in range(1 + max(int(name.split(".")[1]) for name in p)):
        xs = transformer_block(part(p, f"blocks.{layer}"), xs, visible)
    return xs


def summarise(p, kind, states, action, reward, valid, is_first):
    """The past of a step holds what was done before it, its future what was done from there on."""
    steps = range(len(states))
    past_inputs, future_inputs = [], []
    for t in steps:
        starts = t == 0 or is_first[t]
        before = (None, 0.0) if starts else (action[t - 1], reward[t - 1])
        past_inputs.append(embed(part(p, "embed_past"), states[t], *before))
        future_inputs.append(embed(part(p, "embed_future"), states[t], action[t], reward[t]))
    past = run(part(p, "forward"), kind, past_inputs, valid, steps)
    future = run(part(p, "backward"), kind, future_inputs, valid, reversed(steps))
    past = [residual(part(p, "add_state"), past[t], states[t]) for t in steps]
    return [layer_norm(part(p, "past_norm"), h) for h in past], [layer_norm(part(p, "future_norm"), b) for b in future]


def compress(x):
    return np.sign(x) * (np.sqrt(abs(x) + 1) - 1) + 0.001 * x


def two_hot(x, bins, low, high):
    """Weight on the two bins beside h(x), such that the mean of the bins is h(x)."""
    centres = np.linspace(low, high, bins)
    value = min(max(compress(x), low), high)
    target = np.zeros(bins)
    upper = next(i for i in range(bins) if centres[i] >= value)
    lower = max(upper - 1, 0)
    share = (centres[upper] - value) / (centres[1] - centres[0])
    target[lower] += share
    target[upper] += 1 - share
    return target


def return_from(t, reward, discount, valid):
    """The discounted sum of the rewards from step t to the trajectory's end."""
    total, weight = 0.0, 1.0
    for later in range(t, len(reward)):
        if valid[later]:
            total += weight * reward[later]
            weight *= discount[later]
    return total


def auxiliary_losses(p, config, num_actions, trajectories):
    """Mean cross-entropy of each prediction over the steps that exist, averaged over the two summaries."""
    totals, count = dict.fromkeys(("action", "value", "reward"), 0.0), 0
    for trajectory in trajectories:
        reward, valid = trajectory["reward"], trajectory["valid"]
        discount = [d * config.discount for d in trajectory["discount"]]
        for t in range(len(reward)):
            if not valid[t]:
                continue
            count += 1
            support = (config.bins, config.low, config.high)
            targets = {
                "action": np.eye(num_actions)[trajectory["action"][t]],
                "value": two_hot(return_from(t, reward, discount, valid), *support),
                "reward": two_hot(reward[t], *support),
            }
            for head, summary in (("from_past", trajectory["past"][t]), ("from_future", trajectory["future"][t])):
                logits = linear(part(p, head), summary)
                sizes = (num_actions, num_actions + config.bins)
                for name, part_of_logits in zip(targets, np.split(logits, sizes), strict=True):
                    totals[name] -= 0.5 * targets[name] @ np.log(softmax(list(part_of_logits)))
    return {name: total / count for name, total in totals.items()}
