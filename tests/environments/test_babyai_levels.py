"""The list of BabyAI levels, and the words of their missions."""

from __future__ import annotations

import itertools

import gymnasium
import numpy as np
import pytest
from minigrid.core.constants import COLOR_NAMES
from minigrid.envs.babyai.core.verifier import LOC_NAMES, OBJ_TYPES

from r2a.environments.babyai import BabyAISettings, check_data
from r2a.environments.babyai.levels import ACTION_NAMES, COMPOSITIONAL, LEVEL_NAMES, LEVELS, level_index
from r2a.environments.babyai.missions import make_mission
from r2a.environments.babyai.vocabulary import MISSION_WORDS, VOCABULARY_FINGERPRINT, WORDS, as_text, tokenise
from r2a.errors import UserError

LOCATIONS = {"left": "on your left", "right": "on your right", "front": "in front of you", "behind": "behind you"}
PUT = "put the purple ball in front of you next to a yellow door in front of you"


def test_there_are_forty_levels_in_the_order_of_the_pages():
    assert len(set(LEVEL_NAMES)) == 40
    assert list(LEVELS) == list(LEVEL_NAMES)
    assert LEVEL_NAMES[0] == "GoToObj"
    assert LEVEL_NAMES[18:20] == ("BossLevel", "OpenRedDoor")
    assert LEVEL_NAMES[-1] == "MoveTwoAcrossS8N9"
    assert len(COMPOSITIONAL) == 15
    assert set(LEVEL_NAMES) >= COMPOSITIONAL


def test_all_but_two_levels_are_minigrids_own():
    assert [name for name, minigrid_id in LEVELS.items() if minigrid_id is None] == ["PutNext", "FourObjsS7"]
    assert {minigrid_id for minigrid_id in LEVELS.values() if minigrid_id} <= set(gymnasium.registry)
    actions = make_mission("GoToObj").actions
    assert [action.name for action in actions] == list(ACTION_NAMES)


def test_an_unknown_level_is_told_with_near_matches():
    assert [level_index(name) for name in LEVEL_NAMES] == list(range(40))
    with pytest.raises(UserError, match=r"no BabyAI level 'gotolocal'; did you mean GoToLocal"):
        level_index("gotolocal")
    with pytest.raises(UserError, match=r"no BabyAI level '\?'; the levels are GoToObj, "):
        level_index("?")


def test_every_sentence_of_the_grammar_can_be_written():
    assert set(LOC_NAMES) == set(LOCATIONS)
    kinds = [*OBJ_TYPES, "object"]
    for article, colour, kind, location in itertools.product(
        ("the", "a"), ("", *COLOR_NAMES), kinds, ("", *LOCATIONS.values())
    ):
        thing = " ".join(word for word in (article, colour, kind, location) if word)
        for mission in (
            f"go to {thing}",
            f"pick up {thing} and open {thing}",
            f"put {thing} next to {thing}, then go to {thing}",
            f"open {thing} after you go to {thing}",
        ):
            assert as_text(tokenise(mission)) == mission


def test_the_longest_mission_fits_exactly():
    for link in (", then ", " after you "):
        longest = f"{PUT} and {PUT}{link}{PUT} and {PUT}"
        tokens = tokenise(longest)
        assert tokens.shape == (MISSION_WORDS,)
        assert tokens.dtype == np.uint8
        assert np.all(tokens > 0)
        assert as_text(tokens) == longest
        with pytest.raises(UserError, match="73 words; there is room for 72"):
            tokenise(f"go {longest}")


def test_unknown_words_and_vocabularies_are_refused():
    with pytest.raises(UserError, match="the word 'pink'"):
        tokenise("go to the pink ball")
    beyond = np.zeros(MISSION_WORDS, np.uint8)
    beyond[0] = len(WORDS) + 1
    with pytest.raises(UserError, match="no word number"):
        as_text(beyond)
    check_data(BabyAISettings(), {"vocabulary": VOCABULARY_FINGERPRINT}, (148,), "here")
    with pytest.raises(UserError, match="datasets/old was written with another BabyAI vocabulary"):
        check_data(BabyAISettings(), {}, (148,), "datasets/old")


def test_the_vocabulary_stays_what_data_sets_were_written_with():
    assert len(WORDS) == len(set(WORDS)) == 33
    assert VOCABULARY_FINGERPRINT[:16] == "136a13b54c3e557f"
