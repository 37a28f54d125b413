"""Draw the road of a training step as docs/pictures/road.svg: stations, what passes between them, where the code is.

``python benchmarks/road_picture.py``. The picture stands upright, so that it can be read on a narrow screen.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

PICTURE = Path("docs/pictures/road.svg")
WIDTH, STATION, GAP = 620, 62, 44

ROAD = (
    ("Task", "lit_rl/data", "rows with a prompt and a check", "Problem"),
    ("Codec", "lit_rl/models", "messages become token ids", "Request"),
    ("Engine", "lit_rl/engines", "samples G completions of each prompt", "Generation"),
    ("Sandbox", "lit_rl/execution", "runs each program as soon as it is written", "Judgement"),
    ("Environment", "lit_rl/rollout", "answers, or ends the row", "Rollout"),
    ("Reward terms", "lit_rl/rewards", "a reward for each row, credit for its tokens", "RewardOutput"),
    ("Algorithm", "lit_rl/modules", "advantages: what was better than expected", "Experience"),
    ("Update", "lit_rl/functional", "loss, backward, one optimizer step", ""),
)
"""Station, folder, what it does, what it hands on."""

STYLE = """
text { font-family: system-ui, sans-serif; fill: #1d2b2b; }
.name { font-size: 18px; font-weight: 600; } .folder { font-size: 13px; font-family: monospace; fill: #00695c; }
.does { font-size: 15px; } .note { font-size: 13px; }
.passes { font-size: 14px; font-family: monospace; fill: #bf360c; }
rect.station { fill: #e0f2f1; stroke: #00796b; } path { fill: none; stroke: #78909c; stroke-width: 2; }
"""


def picture() -> str:
    """The picture as SVG."""
    step = STATION + GAP
    height = len(ROAD) * step - GAP + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>The road of a training step</title>",
        f"<style>{STYLE}</style>",
        '<defs><marker id="end" markerWidth="8" markerHeight="8" refX="6" refY="3" orient="auto">'
        '<path d="M0,0 L6,3 L0,6" /></marker></defs>',
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff" />',
    ]
    for number, (name, folder, does, passes) in enumerate(ROAD):
        top = 12 + number * step
        parts += [
            f'<rect class="station" x="90" y="{top}" width="516" height="{STATION}" rx="8" />',
            f'<text class="name" x="106" y="{top + 26}">{escape(name)}</text>',
            f'<text class="folder" x="590" y="{top + 25}" text-anchor="end">{escape(folder)}</text>',
            f'<text class="does" x="106" y="{top + 49}">{escape(does)}</text>',
        ]
        if passes:
            bottom = top + STATION
            parts += [
                f'<path d="M130,{bottom} V{bottom + GAP - 3}" marker-end="url(#end)" />',
                f'<text class="passes" x="146" y="{bottom + GAP / 2 + 5}">{escape(passes)}</text>',
            ]
    parts += back(4, 2, 70, "next turn", step) + back(7, 1, 34, "new weights", step)
    return "\n".join([*parts, "</svg>", ""])


def back(start: int, end: int, x: int, said: str, step: int) -> list[str]:
    """An arrow on the left, from one station up to an earlier one."""
    below, above = (12 + number * step + STATION / 2 for number in (start, end))
    middle = (below + above) / 2
    return [
        f'<path d="M90,{below} H{x} V{above} H86" marker-end="url(#end)" />',
        f'<text class="note" transform="translate({x - 8},{middle}) rotate(-90)" text-anchor="middle">{said}</text>',
    ]


if __name__ == "__main__":
    PICTURE.write_text(picture())
    print(f"wrote {PICTURE}")
