"""What the figures of all experiments share."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # after the choice of a back end without a screen
from matplotlib.figure import Figure


def write_figure(figure: Figure, path: Path, legend_inches: float = 0.45) -> None:
    """Write a figure, with one legend of all its panels' curves below them."""
    curves = {}
    for panel in figure.axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            curves.setdefault(label, handle)
    figure.legend(curves.values(), curves.keys(), loc="lower center", ncol=3, fontsize=9, frameon=False)
    figure.tight_layout(rect=(0, legend_inches / figure.get_figheight(), 1, 1))
    figure.savefig(path, dpi=110)
    plt.close(figure)
