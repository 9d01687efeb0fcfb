"""Pictures as files."""

from pathlib import Path

from PIL import Image

from benchmarks.core import figure


def test_a_title_is_wrapped_where_the_picture_is_narrow(tmp_path: Path) -> None:
    title = "A title of many words that says what is in the picture, and of which data and scale it is"
    for name, text in {"none": "A title", "long": title}.items():
        with figure.panels(tmp_path / name, text, figsize=(4, 3)) as ax:
            ax.plot([0, 1])
    none, long = (Image.open(tmp_path / name).convert("L") for name in ("none", "long"))
    assert none.size == long.size == (440, 330)
    edge = long.crop((0, 0, 3, 330)).getextrema(), long.crop((437, 0, 440, 330)).getextrema()
    assert min(low for low, _ in edge) > 250, "nothing is cut off"
    height = [picture.crop((50, 0, 390, 60)).point(lambda v: 255 * (v < 128)).getbbox() for picture in (none, long)]
    assert height[1][3] > height[0][3] + 10, "more than one line"
