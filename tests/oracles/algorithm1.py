"""Algorithm 1, its ablations A-1 and A-2, and an agent around them: loops over slots, trajectories and states.

Written from the paper; readings where it is silent are those of docs/paper_map.md. Random draws are replaced by
their means. A trajectory is a dict with the lists `states`, `past` (h), `future` (b) and `valid`, and with `return`
and `id`.
"""

from __future__ import annotations

import numpy as np
from oracles.layers import (
    attend,
    gru_cell,
    layer_norm,
    linear,
    mlp,
    part,
    q_values,
    residual,
    softmax,
    softplus,
    transformer_block,
)
from oracles.summaries import embed, summarise


def query(p, x):
    """Step 1, second line: f_query."""
    return layer_norm(part(p, "reader.query_norm"), mlp(part(p, "reader.query_network"), x))


def top(count, scores):
    """The keys of the `count` highest scores."""
    return sorted(scores, key=scores.get, reverse=True)[:count]


def most_similar(config, s, trajectories, members):
    """The states (i, j) that may be read: those that exist, or the nearest of each of the nearest trajectories."""
    cosine = {}
    for i in members:
        for j, state in enumerate(trajectories[i]["states"]):
            if trajectories[i]["valid"][j]:
                cosine[i, j] = state @ s / np.sqrt(state @ state + 1e-6)
    if not config.num_neighbours:
        return list(cosine)
    nearest = [top(1, {state: cosine[state] for state in cosine if state[0] == i}) for i in members]
    return top(config.num_neighbours, {state: cosine[state] for found in nearest for state in found})


def retrieve(p, config, q, s, trajectories):
    """Steps 2 and 3 for one slot: g, and the weight of every state (trajectory id, step) that was read."""
    members = range(len(trajectories))
    if config.ranking == "return":
        members = top(config.k_traj, {i: trajectories[i]["return"] for i in members})
    candidates = most_similar(config, s, trajectories, members)
    logit = {}
    for i, j in candidates:
        kappa = linear(part(p, "reader.key"), trajectories[i]["past"][j])
        logit[i, j] = q @ kappa / np.sqrt(config.key_size)
    if config.ranking == "attention" and not config.num_neighbours:  # else the most similar states are candidates
        alpha = dict(zip(candidates, softmax(list(logit.values())), strict=True))
        relevance = {i: sum(alpha[state] for state in candidates if state[0] == i) for i in members}
        members = top(config.k_traj, relevance)
    within = {state: logit[state] for state in candidates if state[0] in members}
    chosen = top(config.k_states or len(within), within)
    alpha = softmax([logit[state] for state in chosen])
    g, read = np.zeros(config.slot_size), {}
    for weight, (i, j) in zip(alpha, chosen, strict=True):
        g = g + weight * linear(part(p, "reader.value"), trajectories[i]["future"][j])
        read[trajectories[i]["id"], j] = weight
    return g, read


def gaussian(parameters, config):
    mean, raw = np.split(parameters, 2)
    return mean, softplus(raw + np.log(np.exp(config.bottleneck_std - 1e-3) - 1)) + 1e-3


def bottleneck(p, config, g, m):
    """Step 4: the mean of p(Z | g), and D_KL(p || r) with r = r(Z | m)."""
    if config.bottleneck == "identity":
        return g, 0.0
    mean, std = gaussian(linear(part(p, "bottleneck.posterior"), g), config)
    prior_mean, prior_std = gaussian(linear(part(p, "bottleneck.prior"), m), config)
    kl = 0.0
    for d in range(len(mean)):
        spread = (std[d] ** 2 + (mean[d] - prior_mean[d]) ** 2) / (2 * prior_std[d] ** 2)
        kl += np.log(prior_std[d] / std[d]) + spread - 0.5
    return mean, kl / len(mean) if config.kl_reduction == "mean" else kl


def joint_update(p, m_hat, m_tilde):
    """Step 5, second half: queries from m_hat, keys and values from m_tilde."""
    shared = [attend(part(p, "slot_update.attention"), m, m_tilde)[0] for m in m_hat]
    return [residual(part(p, "slot_update.exchange"), m, c) for m, c in zip(m_tilde, shared, strict=True)]


def agent_update(p, s, z):
    """Step 6."""
    u, gamma = attend(part(p, "agent_update.attention"), s, z)
    return residual(part(p, "agent_update.take_in"), s, u), u, gamma


def full(p, config, state, s, trajectories):
    """One timestep of Algorithm 1."""
    m, z, slots = list(state["slots"]), list(state["last_read"]), range(config.slots)
    periods = config.slot_periods or (1,) * config.slots
    awake = [state["age"] % periods[k] == 0 for k in slots]
    kl, reads = [0.0] * config.slots, [{} for _ in slots]
    for _ in range(config.retrievals_per_step):
        m_hat, m_tilde = [], []
        for k in slots:
            m_hat.append(gru_cell(part(p, "slot_input.cell"), s, m[k]))
            if awake[k]:
                g, reads[k] = retrieve(p, config, query(p, m_hat[k]), s, trajectories)
                z[k], paid = bottleneck(p, config, g, m[k])
                kl[k] += paid
            m_tilde.append(residual(part(p, "slot_update.take_in"), m_hat[k], z[k]))
        m_next = joint_update(p, m_hat, m_tilde)
        m = [m_next[k] if awake[k] else m[k] for k in slots]
    s_tilde, u, gamma = agent_update(p, s, z)
    state = {"slots": m, "last_read": z, "age": state["age"] + 1}
    return {"state": state, "s": s_tilde, "u": u, "z": z, "kl": kl, "read": reads, "slot_weight": gamma}


def agent_query(p, config, state, s, trajectories):
    """A-1: no slots; the query comes from s, and what was read is added to s."""
    g, read = retrieve(p, config, query(p, s), s, trajectories)
    z, kl = bottleneck(p, config, g, np.zeros(config.slot_size))
    s_tilde = residual(part(p, "take_in"), s, z)
    state = {**state, "age": state["age"] + 1}
    return {"state": state, "s": s_tilde, "u": z, "z": [z], "kl": [kl], "read": [read], "slot_weight": [1]}


def slots_only(p, config, state, s, trajectories):
    """A-2: nothing to retrieve; steps 1, 5 (joint update) and 6, which reads the slots."""
    m = list(state["slots"])
    if config.slot_input == "gru":
        m_hat = [gru_cell(part(p, "slot_input.cell"), s, slot) for slot in m]
    else:
        together = [*m, linear(part(p, "slot_input.from_agent"), s)]
        everything = [list(range(len(together)))] * len(together)
        m_hat = transformer_block(part(p, "slot_input.block"), together, everything)[:-1]
    m = joint_update(p, m_hat, m_hat)
    s_tilde, u, gamma = agent_update(p, s, m)
    state = {**state, "slots": m, "age": state["age"] + 1}
    nothing = [0.0] * config.slots
    return {"state": state, "s": s_tilde, "u": u, "z": m, "kl": nothing, "read": [], "slot_weight": gamma}


VARIANTS = {"full": full, "agent_query": agent_query, "slots_only": slots_only}


def agent_state(p, memory, observation, previous_action, previous_reward):
    """s: what is seen, encoded; or, with a memory, a GRU's state after it. Action None is none, memory None empty."""
    x = mlp(part(p, "encoder.mlp"), observation, activate_last=True)
    if not part(p, "core"):
        return x
    if memory is None:
        memory = np.zeros(len(p["core.gru.cell.candidate_bias"]))
    return gru_cell(part(p, "core.gru.cell"), embed(part(p, "core.embed"), x, previous_action, previous_reward), memory)


def encode(p, config, batch):
    """The trajectories of a retrieval batch (a dict of arrays) with their states and summaries."""
    trajectories = []
    for i in range(len(batch["return"])):
        states, memory = [], None
        for t, x in enumerate(batch["observation"][i]):
            starts = t == 0 or batch["is_first"][i][t]
            before = (None, 0.0) if starts else (batch["action"][i][t - 1], batch["reward"][i][t - 1])
            memory = agent_state(p, None if starts else memory, x, *before)
            states.append(memory)
        own = {name: batch[name][i] for name in ("action", "reward", "discount", "valid", "is_first", "return", "id")}
        past, future = summarise(
            part(p, "retrieval.summariser"),
            config.summariser,
            states,
            *(own[name] for name in ("action", "reward", "valid", "is_first")),
        )
        trajectories.append({**own, "states": states, "past": past, "future": future})
    return trajectories


def agent_step(p, config, heads, state, s, trajectories):
    """From the agent state on: do one step of the variant, value the actions."""
    outcome = VARIANTS[config.variant](part(p, "retrieval.process"), config, state, s, trajectories)
    return {**outcome, "q_values": q_values(part(p, "head"), outcome["s"], outcome["z"], heads)}
