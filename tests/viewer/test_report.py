"""The report: one file, everything escaped, and a script that runs in a real browser."""

import json
import os
import re
import shutil
import subprocess
from dataclasses import asdict, replace
from html.parser import HTMLParser

import jax
import pytest

from r2a.environments.gridroboman import render as board_page
from r2a.environments.gridroboman.render import render
from r2a.environments.gridroboman.tasks import TASK_NAMES
from r2a.environments.registry import world_of
from r2a.experiments.gridroboman import SMOKE
from r2a.training.collect import collect
from r2a.training.metrics import read_metrics
from r2a.training.offline import OfflineRun
from r2a.training.record import record_episode
from r2a.training.train import train
from r2a.viewer.curves import Curve, curves_of_sources
from r2a.viewer.episodes import retrieved_at, swap_data
from r2a.viewer.report import TaskReturns, means, write_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
NASTY = "</script><script>document.title='broken'</script>\"'&<b>"
LIFT_RED, TOUCH_BLUE = TASK_NAMES.index("lift red"), TASK_NAMES.index("touch blue")
METRICS = [
    {"step": step, "eval/right": step / 10, "eval/wrong": 0.5, "time/train_seconds": step / 7} for step in (10, 20)
]


class Page(HTMLParser):
    """What a browser would fetch, and the texts of the scripts."""

    def __init__(self, text: str):
        super().__init__()
        self.addresses: list[str] = []
        self.scripts: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "srcset")]

    def handle_data(self, data):
        if self.tags and self.tags[-1] == "script":
            self.scripts.append(data)


def check_self_contained(text: str) -> Page:
    page = Page(text)
    assert all(address.startswith("#") for address in page.addresses)
    assert not {"link", "img", "iframe", "object", "embed"} & set(page.tags)
    assert not re.search(r"@import|url\((?!#)|fetch\(|XMLHttpRequest", text)
    assert set(re.findall(r"https?://[^\"' ]*", text)) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    return page


def browse(path, folder, fragment: str = "") -> str:
    """The document after its script ran in a browser."""
    if CHROMIUM is None:
        pytest.skip("no chromium on the PATH")
    options = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
        "--disable-component-update --disable-sync --virtual-time-budget=2000 --dump-dom"
    )
    command = [CHROMIUM, *options.split(), f"--user-data-dir={folder}", f"file://{path}{fragment}"]
    home = os.environ | {"HOME": str(folder)}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=home).stdout


def rectangles(svg: str) -> list[tuple[float, float, str]]:
    """Centre and colour of each rectangle, in cells."""
    found = []
    for tag in re.findall(r"<rect [^>]*>", svg):
        values = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        x, y, side = (float(values.get(name, 0)) for name in ("x", "y", "width"))
        found.append((x + side / 2, y + side / 2, values["fill"]))
    return found


@pytest.fixture(scope="module")
def report(tmp_path_factory, expert_record):
    path = tmp_path_factory.mktemp("report") / "report.html"
    records = [expert_record(LIFT_RED, 1), expert_record(TOUCH_BLUE, 1)]
    write_report(
        path,
        title=NASTY,
        page=board_page,
        best=50.0,
        task_names=[NASTY, *TASK_NAMES[1:]],
        table=[TaskReturns(NASTY, 30.0, 1.0, None, 44.0, 2.0), TaskReturns("lift red", 20.0, 0.5, None, 46.0, 0.0)],
        curves=curves_of_sources([METRICS, METRICS]) | {NASTY: Curve([METRICS])},
        episodes=records,
        swaps=[(records[0], records[1])],
        settings={"seed": NASTY, "path": path},
        note=NASTY,
    )
    return path


def test_the_report_needs_nothing_else_and_escapes_everything(report):
    text = report.read_text()
    page = check_self_contained(text)
    assert NASTY not in text
    data = json.loads(page.scripts[0])
    assert data["tasks"][0] == NASTY
    assert (len(data["episodes"]), len(data["swaps"])) == (2, 1)
    assert "25.0" in text
    assert len(text) < 1_000_000


def test_a_report_with_nothing_to_show_is_a_page_too(tmp_path):
    write_report(tmp_path / "empty.html", title="Nothing yet", page=board_page, best=50.0, task_names=["a"])
    text = (tmp_path / "empty.html").read_text()
    check_self_contained(text)
    assert text.count("<section") == text.count(" hidden>\n<h2>") + text.count(" hidden>\n<details>") == 5


def test_the_script_runs_in_a_browser_and_draws_what_the_renderer_draws(report, tmp_path, expert_record):
    document = browse(report, tmp_path, "#episode=5&swap=50")
    assert 'data-report="ready"' in document
    boards = re.findall(r'<svg class="board".*?</svg>', document, re.DOTALL)
    played = expert_record(LIFT_RED, 1)
    assert len(boards) == 2 + 1 + 6  # the swap, the episode, the retrieved states
    assert "step 50 of 50" in document
    assert "step 5 of 49" in document
    for svg, observation in zip(
        boards[:4],
        [played.observations[50], expert_record(TOUCH_BLUE, 1).observations[50], *[played.observations[5]] * 2],
        strict=True,
    ):
        image = render(observation, cell=50)
        last = {(x, y): fill for x, y, fill in rectangles(svg)[2:]}  # after wall and floor; the topmost comes last
        assert len(last) >= 3
        for (x, y), fill in last.items():
            assert fill == "#{:02x}{:02x}{:02x}".format(*image[int(50 * y), int(50 * x)])
    earned = [int(value) for value in re.findall(r"<b>(\d+)</b></div>", document)]
    assert earned[0] == played.rewards.sum()
    assert earned[3] == expert_record(TOUCH_BLUE, 1).rewards.sum()


def test_retrieved_states_are_merged_and_sorted(expert_record):
    record = expert_record(LIFT_RED, 2)
    read = retrieved_at(record, 0, board_page)
    weights = [state["weight"] for state in read["states"]]
    assert weights == sorted(weights, reverse=True)
    assert read["count"] == 6  # steps 0 1 2 3 and 0 2 4 6
    assert sum(weights) == pytest.approx(1, abs=1e-3)
    assert read["states"][0] == {
        "board": board_page.board_data(record.observations[0]),
        "weight": 0.5,
        "slots": [0, 1],
        "action": int(record.actions[0]),
        "reward": float(record.rewards[0]),
        "task": LIFT_RED,
        "episode": 17,
        "return": float(record.rewards.sum()),
    }
    assert sum(read["votes"]) == pytest.approx(1, abs=1e-3)
    assert len(retrieved_at(record, 0, board_page, top=2)["states"]) == 2


def test_a_swap_begins_with_one_board(expert_record):
    with pytest.raises(ValueError, match="same board"):
        swap_data(expert_record(LIFT_RED, 1), expert_record(TOUCH_BLUE, 2), board_page)


def test_means_are_of_columns_that_all_tasks_have():
    table = [TaskReturns("a", 1.0, 2.0, expert=3.0), TaskReturns("b", 3.0, 4.0)]
    assert means(table) == {"right": 2.0, "wrong": 3.0}
    assert means([]) == {}


def test_a_report_of_a_trained_run(tmp_path):
    settings = replace(world_of("gridroboman").collect, episodes=40, num_tasks=SMOKE.data.num_tasks)
    dataset = collect("gridroboman", settings, tmp_path / "data")
    run = train(OfflineRun(SMOKE, dataset), tmp_path / "run")
    config = run.config

    def recorded(task, source):
        return record_episode(run.agent, run.data, config, task=task, retrieve_from=source, key=jax.random.key(1))

    metrics = read_metrics(tmp_path / "run")
    write_report(
        tmp_path / "report.html",
        title="A tiny run",
        page=world_of("gridroboman").load("page"),
        best=50.0,
        task_names=dataset.task_names,
        table=[TaskReturns(name, metrics[-1][f"eval/right/{name}"]) for name in dataset.task_names],
        curves=curves_of_sources([metrics]),
        episodes=[recorded(0, 0), recorded(0, 2)],
        swaps=[(recorded(0, 0), recorded(0, 2))],
        settings=asdict(config),
    )
    text = (tmp_path / "report.html").read_text()
    data = json.loads(check_self_contained(text).scripts[0])
    tasks_read = [state["task"] for state in data["episodes"][1]["read"][0]["states"]]
    assert set(tasks_read) == {2}
    assert config.agent.retrieval.k_states <= len(tasks_read) <= 6, "two slots may read the same states, or others"
    assert len(text) < 3_000_000
    assert 'data-report="ready"' in browse(tmp_path / "report.html", tmp_path / "browser")
