"""Films of episodes."""

import numpy as np
import pytest
from PIL import Image

from r2a.viewer.video import write_gif


def squares(count):
    """A white square that wanders over red ground."""
    pictures = np.zeros((count, 40, 30, 3), np.uint8)
    pictures[..., 0] = 200
    for number in range(count):
        pictures[number, number : number + 5, 10:15] = 255
    return pictures


def test_a_film_shows_the_pictures_in_their_order_and_colours(tmp_path):
    path = tmp_path / "films" / "square.gif"
    pictures = squares(20)
    write_gif(pictures, path, frames_per_second=10)
    with Image.open(path) as film:
        assert film.n_frames == 20
        assert film.info["duration"] == 100
        assert film.info["loop"] == 0
        for number in (0, 7, 19):
            film.seek(number)
            assert np.array_equal(np.asarray(film.convert("RGB")), pictures[number])


def test_a_film_can_be_shortened_and_keeps_its_last_picture(tmp_path):
    pictures = squares(20)
    write_gif(pictures, tmp_path / "short.gif", every=6)
    with Image.open(tmp_path / "short.gif") as film:
        assert film.n_frames == 5  # 0, 6, 12, 18 and the last
        film.seek(4)
        assert np.array_equal(np.asarray(film.convert("RGB")), pictures[-1])


def test_a_film_of_nothing_is_refused(tmp_path):
    with pytest.raises(ValueError, match="at least one picture"):
        write_gif([], tmp_path / "nothing.gif")
    assert list(tmp_path.iterdir()) == []
