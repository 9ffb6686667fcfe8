"use strict";
(function () {
  const root = document.documentElement;
  root.dataset.report = "loading";
  window.addEventListener("error", (event) => {
    root.dataset.report = "error: " + event.message;
    const problem = document.getElementById("problem");
    problem.textContent = "Something on this page does not work here: " + event.message;
    problem.hidden = false;
  });

  const data = JSON.parse(document.getElementById("data").textContent);
  const look = data.look;
  const ARROWS = { up: "↑ ", down: "↓ ", left: "← ", right: "→ " };
  const RAISED = 1, UNDER = -1;
  const PAUSE = 330; // milliseconds between two steps
  const asked = new URLSearchParams(location.hash.slice(1)); // #swap=50&episode=12 begins with those steps

  const taskName = (number) => data.tasks[number] ?? "task " + number;
  const actionName = (number) => (ARROWS[look.actions[number]] ?? "") + look.actions[number];
  const percent = (share) => (100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0) + " %";

  function element(tag, properties = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name === "style") made.style.cssText = value;
      else made[name] = value;
    }
    made.append(...children);
    return made;
  }

  function shape(tag, attributes, ...children) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  // A board from the 11-vector and the held object, one unit per cell; half of the wall ring is enough.
  function drawBoard(numbers) {
    const side = look.size + 2;
    const viewBox = `0.5 0.5 ${side - 1} ${side - 1}`;
    const board = shape("svg", { class: "board", viewBox, role: "img", "aria-label": describe(numbers) });
    board.append(shape("rect", { width: side, height: side, fill: look.wall }));
    board.append(shape("rect", { x: 1, y: 1, width: look.size, height: look.size, fill: look.white }));
    let lines = "";
    for (let i = 1; i <= look.size + 1; i++) lines += `M${i} 1V${side - 1}M1 ${i}H${side - 1}`;
    board.append(shape("path", { d: lines, stroke: look.grid, "stroke-width": 0.05, fill: "none" }));

    const place = (i) => [numbers[2 * i], numbers[2 * i + 1]];
    const square = ([x, y], share, fill) => board.append(shape("rect", {
      x: x + 1.5 - share / 2, y: y + 1.5 - share / 2, width: share, height: share, fill, rx: 0.03,
    }));
    const status = numbers.slice(8, 11), held = numbers[11], robot = place(3);
    const lying = [0, 1, 2].filter((i) => i !== held);
    lying.sort((a, b) => Number(status[a] !== UNDER) - Number(status[b] !== UNDER));
    for (const i of lying) square(place(i), look.layers[status[i] === RAISED ? 1 : 0], look.objects[i]);
    const below = lying.filter((i) => place(i)[0] === robot[0] && place(i)[1] === robot[1]).length;
    square(robot, look.layers[below], look.robot);
    if (held >= 0) square(robot, look.layers[below] * look.held, look.objects[held]);
    return board;
  }

  function describe(numbers) {
    const names = ["red", "green", "blue", "robot"];
    const places = names.map((name, i) => `${name} at column ${numbers[2 * i] + 1}, row ${numbers[2 * i + 1] + 1}`);
    return places.join("; ") + (numbers[11] >= 0 ? `; the robot holds ${names[numbers[11]]}` : "");
  }

  function bar(share, tone) {
    const style = `width:${Math.max(0, Math.min(1, share)) * 100}%;` + (tone ? `--tone:${tone}` : "");
    return element("span", { className: "track" }, element("i", { style }));
  }

  // Play button, slider and a choice of what is shown; `show(choice, step)` draws.
  function player(section, labels, lastStep, show, playsWhenSeen) {
    const host = section.querySelector(".controls");
    let step = Math.max(0, Math.min(lastStep, Number(asked.get(section.id)) || 0)), timer = 0;
    const button = element("button", { type: "button" });
    const slider = element("input", { type: "range", min: 0, max: lastStep, ariaLabel: "step" });
    const output = element("output");
    const options = labels.map((text, i) => element("option", { value: i, textContent: text }));
    const select = element("select", { ariaLabel: "what is shown" }, ...options);
    select.hidden = labels.length < 2;
    function draw() {
      slider.value = step;
      output.textContent = `step ${step} of ${lastStep}`;
      show(Number(select.value), step);
    }
    function pause() {
      clearInterval(timer);
      timer = 0;
      button.textContent = "▶ Play";
    }
    function play() {
      if (step >= lastStep) step = 0;
      button.textContent = "❚❚ Pause";
      timer = setInterval(() => {
        step += 1;
        draw();
        if (step >= lastStep) pause();
      }, PAUSE);
    }
    button.addEventListener("click", () => (timer ? pause() : play()));
    slider.addEventListener("input", () => { pause(); step = Number(slider.value); draw(); });
    select.addEventListener("change", () => { pause(); step = 0; draw(); });
    host.append(select, button, slider, output);
    pause();
    draw();
    if (!playsWhenSeen || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    const watch = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watch.disconnect();
      if (!timer && step === 0) play();
    });
    watch.observe(host);
  }

  function swapView(host) {
    const tones = ["var(--right)", "var(--wrong)"];
    const panes = [0, 1].map(() => ({
      title: element("h3"), stage: element("div"), bars: element("div", { className: "bars" }),
    }));
    for (const { title, stage, bars } of panes) {
      host.querySelector(".panes").append(element("div", { className: "pane" }, title, stage, bars));
    }
    function show(choice, step) {
      const swap = data.swaps[choice];
      panes.forEach((pane, side) => {
        const run = swap.panes[side];
        const earned = swap.tasks.map((_, i) => (step ? run.earned[i][step - 1] : 0));
        const before = step > 1 ? run.earned[side][step - 2] : 0;
        pane.title.textContent = `reads “${taskName(run.reads)}”`;
        pane.stage.replaceChildren(drawBoard(run.boards[step]));
        pane.stage.classList.toggle("solved", earned[side] > before);
        pane.bars.replaceChildren(...swap.tasks.map((task, i) => element("div", { className: "bar" },
          element("span", { textContent: taskName(task) }),
          bar(earned[i] / look.steps, tones[i]),
          element("b", { textContent: earned[i] }))));
      });
    }
    const labels = data.swaps.map((swap) => swap.tasks.map((task) => `“${taskName(task)}”`).join(" or "));
    player(host, labels, data.swaps[0].panes[0].actions.length, show, true);
  }

  function strip(rewards, step) {
    const viewBox = `0 0 ${rewards.length} 4`;
    const drawn = shape("svg", { class: "strip", viewBox, preserveAspectRatio: "none", "aria-hidden": "true" });
    rewards.forEach((reward, t) => drawn.append(shape("rect", {
      x: t + 0.08, y: t === step ? 0 : 1, width: 0.84, height: t === step ? 4 : 2,
      fill: reward > 0 ? "#0f766e" : "#d6d3d1", opacity: t > step ? 0.45 : 1,
    })));
    return drawn;
  }

  function choiceTable(episode, step) {
    const q = episode.q[step], votes = episode.read[step].votes;
    const low = Math.min(...q), range = Math.max(...q) - low || 1;
    const headed = (textContent) => element("th", { scope: "col", textContent });
    const heads = ["action", "done where it read", "value"].map(headed);
    const rows = look.actions.map((_, a) => element("tr", { className: a === episode.actions[step] ? "chosen" : "" },
      element("th", { scope: "row", textContent: actionName(a) }),
      element("td", {}, bar(votes[a])),
      element("td", { textContent: q[a].toFixed(2), style: `opacity:${0.45 + 0.55 * (q[a] - low) / range}` })));
    return element("table", { className: "choice" },
      element("thead", {}, element("tr", {}, ...heads)),
      element("tbody", {}, ...rows));
  }

  function card(state) {
    const slots = state.slots.map((slot) => slot + 1).join(", ");
    const weight = element("span", { textContent: percent(state.weight) });
    return element("div", { className: "card" },
      drawBoard(state.board),
      element("div", { className: "weight" }, bar(state.weight), weight),
      element("div", { className: "then", textContent: `then ${actionName(state.action)}, reward ${state.reward}` }),
      element("div", { className: "from", textContent: `“${taskName(state.task)}”, episode ${state.episode}` }),
      element("div", { className: "from", textContent: `that earned ${state.return}; slot ${slots}` }));
  }

  function episodeView(host) {
    const played = host.querySelector(".played"), read = host.querySelector(".read");
    function show(choice, step) {
      const episode = data.episodes[choice], reading = episode.read[step];
      const sum = (rewards) => rewards.reduce((total, reward) => total + reward, 0);
      const earned = `${sum(episode.rewards.slice(0, step))} of ${sum(episode.rewards)}`;
      const stage = element("div", {}, drawBoard(episode.boards[step]), strip(episode.rewards, step));
      stage.classList.toggle("solved", step > 0 && episode.rewards[step - 1] > 0);
      played.replaceChildren(
        element("p", { className: "line" }, "plays ", element("b", { textContent: taskName(episode.task) }),
          ", chooses ", element("b", { textContent: actionName(episode.actions[step]) }), `, earned ${earned}`),
        stage, choiceTable(episode, step));
      const share = reading.states.reduce((sum, state) => sum + state.weight, 0);
      const line = element("p", { className: "line" });
      if (reading.states.length) {
        line.append("reads ", element("b", { textContent: taskName(episode.reads) }),
          `: ${reading.states.length} of ${reading.count} chosen moments, ${percent(share)} of the weight`);
      } else line.append("This agent reads nothing.");
      read.replaceChildren(line, element("div", { className: "cards" }, ...reading.states.map(card)));
    }
    const labels = data.episodes.map((e) => `plays “${taskName(e.task)}”, reads “${taskName(e.reads)}”`);
    player(host, labels, data.episodes[0].actions.length - 1, show, false);
  }

  if (data.swaps.length) swapView(document.getElementById("swap"));
  if (data.episodes.length) episodeView(document.getElementById("episode"));
  root.dataset.report = "ready";
})();
