"""The papers' own problems and what is known of them, for tests and for `reblock bench papers`.

Shapes are those of Guédon's thesis, Table 3. Counts are by the corrected seek model, checked by brute force;
where the thesis prints a figure of its own (Table 4) it stands beside ours. Elements have two bytes.
"""

from __future__ import annotations

from dataclasses import dataclass

from reblock.geometry import Grid
from reblock.model import Access, Layout, Pass

#: Three axes.
Shape = tuple[int, int, int]

#: Bytes of an element in the thesis' arrays (float16).
ITEM_BYTES = 2


@dataclass(frozen=True)
class Known:
    """A pass with its seeks and the most bytes of elements held."""

    read: tuple[tuple[int, ...] | int, ...]
    """R, per axis a length or all lengths."""
    seeks: int
    """Source and target, openings included."""
    held_bytes: int
    """Most bytes of elements held."""
    order: Shape = (0, 1, 2)
    """Axes of the sweep, outermost first."""
    kept: tuple[int, ...] = (0, 1, 2)
    """Axes on which W = O; on the others W = R ∪ O."""
    tasks: Shape | None = None
    """T; None = the whole array."""

    def sweep(self, config: Config) -> Pass:
        """The pass, for a configuration's layouts."""
        read, target = Grid.of(config.shape, self.read), config.layouts()[1].objects
        write = [o if d in self.kept else r.refine(o) for d, (r, o) in enumerate(zip(read.axes, target.axes, strict=True))]
        tasks = Grid.of(config.shape, self.tasks or config.shape)
        return Pass(read, Grid(tuple(write)), tasks, self.order, Access.RUNS, Access.RUNS)


@dataclass(frozen=True)
class Config:
    """One row of thesis Table 3 with the golden values of its baseline and keep strategies."""

    shape: Shape
    """A."""
    source: Shape
    """I."""
    target: Shape
    """O."""
    source_count: int
    """n_I."""
    target_count: int
    """n_O."""
    baseline_seeks: int
    """R = T = I, W = I ∪ O."""
    lower_bound: int = 0
    """n_I + n_O."""
    baseline_runs: int | None = None
    """Contiguous byte ranges of the baseline, both sides."""
    largest_read: Shape = (0, 0, 0)
    """r̂ = I·⌈O/I⌉, where every axis is kept."""
    held_elements: int | None = None
    """Most elements held at r̂, all axes kept, C order."""
    thesis: Known | None = None
    """Table 4 under 4 GB: the thesis' choice, with the corrected count."""
    keep: Known | None = None
    """What its algorithm chooses with the corrected count."""
    bound: tuple[Known, ...] = ()
    """Passes that reach the lower bound: read shapes that divide A and T = A, then better ones."""
    best: Known | None = None
    """The fewest seeks known under 4 GB."""

    def layouts(self, dtype: str = "<f2") -> tuple[Layout, Layout]:
        """Source and target, raw, C order on disk."""
        source, target = Grid.of(self.shape, self.source), Grid.of(self.shape, self.target)
        return Layout.raw(dtype, source), Layout.raw(dtype, target)

    def scaled(self, factor: int) -> tuple[Shape, Shape, Shape]:
        """A, I and O divided by a factor that divides them all."""
        return _divide(self.shape, factor), _divide(self.source, factor), _divide(self.target, factor)


def _divide(shape: Shape, factor: int) -> Shape:
    if any(n % factor for n in shape):
        raise ValueError(f"{factor} does not divide {shape}")
    a, b, c = shape
    return a // factor, b // factor, c // factor


def _cube(n: int) -> Shape:
    return n, n, n


_SMALL, _LARGE = _cube(3500), _cube(8000)

#: The "small" array, 85.75 GB, configurations 0 to 6.
CONFIGS_3500: tuple[Config, ...] = (
    Config(
        _SMALL, _cube(875), (875, 1750, 875), 64, 32, 56_128, 96, 56_064, (875, 1750, 875), 1_339_843_750,
        thesis=Known((875, 1750, 875), 96, 2_679_687_500),
        keep=Known((875, 1750, 875), 96, 2_679_687_500),
        bound=(Known((875, 875, 875), 96, 2_679_687_500, (0, 2, 1)),),
        best=Known((875, 1750, 875), 96, 2_679_687_500),
    ),
    Config(
        _SMALL, _cube(875), (700, 875, 700), 64, 100, 73_500_368, 164, 73_500_128, _cube(875), 7_288_750_000,
        thesis=Known((700, 875, 875), 356, 1_715_000_000),
        keep=Known((700, 875, 875), 356, 1_715_000_000),
        bound=(Known((875, 875, 875), 164, 4_930_625_000, (1, 0, 2)),),
        best=Known((1400, 875, 875), 260, 3_430_000_000),
    ),
    Config(
        _SMALL, _cube(350), _cube(500), 1000, 343, 196_005_096, 1343, 196_001_000, _cube(700), 5_464_000_000,
        thesis=Known((500, 700, 700), 3143, 1_900_000_000),
        keep=Known((350, 700, 700), 2568, 1_330_000_000, kept=(1, 2)),
        bound=(
            Known((350, 700, 700), 1343, 10_614_000_000, (1, 2, 0)),
            Known((350, 1050, 1050), 1343, 6_059_000_000, (1, 2, 0)),
        ),
        best=Known((1400, 350, 1050), 1637, 3_612_000_000, (0, 2, 1), (1, 2)),
    ),
    Config(
        _SMALL, _cube(350), _cube(250), 1000, 2744, 196_348_224, 3744, 196_337_792, _cube(350), 2_524_875_000,
        thesis=Known((250, 350, 350), 7144, 412_500_000),
        keep=Known((250, 350, 350), 7144, 412_500_000),
        bound=(
            Known((350, 350, 1750), 3744, 2_887_500_000, (2, 0, 1)),
            Known(((1050, 700) * 2, 350, 350), 3744, 1_094_250_000, tasks=_cube(1750)),
        ),
        best=Known((350, 350, 1750), 3744, 2_887_500_000, (2, 0, 1)),
    ),
    Config(
        _SMALL, _cube(175), _cube(250), 8000, 2744, 392_040_768, 10_744, 392_008_000, _cube(350), 2_524_875_000,
        thesis=Known((250, 350, 350), 25_144, 412_500_000),
        keep=Known((175, 350, 350), 20_544, 288_750_000, kept=(1, 2)),
        bound=(
            Known((175, 1750, 1750), 10_744, 2_450_000_000, (1, 2, 0)),
            Known((1750, (525, 525, 525, 175) * 2, 175), 10_744, 1_588_125_000),
            Known(((525, 525, 525, 175) * 2, (525, 525, 525, 175) * 2, 175), 10_744, 757_375_000, tasks=_cube(1750)),
        ),
        best=Known((175, 1750, 1750), 10_744, 2_450_000_000, (1, 2, 0)),
    ),
    Config(
        _SMALL, (350, 875, 350), (500, 875, 500), 400, 196, 196_001_424, 596, 196_000_400, (700, 875, 700), 5_337_500_000,
        thesis=Known((500, 875, 700), 1316, 962_500_000),
        keep=Known((350, 875, 700), 1296, 673_750_000, kept=(1, 2)),
        bound=(
            Known((350, 875, 350), 596, 3_185_000_000, (1, 0, 2)),
            Known((350, 875, 1050), 596, 2_257_500_000, (1, 2, 0)),
        ),
        best=Known((350, 875, 350), 596, 3_185_000_000, (1, 0, 2)),
    ),
    Config(
        _SMALL, (350, 875, 350), (350, 500, 350), 400, 700, 211_400, 1100, 210_800, (350, 875, 350), 566_562_500,
        thesis=Known((350, 875, 350), 1100, 1_133_125_000),
        keep=Known((350, 875, 350), 1100, 1_133_125_000),
        bound=(Known((350, 875, 350), 1100, 306_250_000, (0, 2, 1)),),
        best=Known((350, 875, 350), 1100, 1_133_125_000),
    ),
)  # fmt: skip

#: The "large" array, 1024 GB, configurations 0 to 7.
CONFIGS_8000: tuple[Config, ...] = (
    Config(_LARGE, _cube(2000), (2000, 4000, 2000), 64, 32, 128_128, 96),
    Config(_LARGE, _cube(2000), _cube(1600), 64, 125, 384_096_600, 189),
    Config(_LARGE, _cube(800), _cube(1000), 1000, 512, 1_024_005_096, 1512),
    Config(_LARGE, _cube(800), _cube(500), 1000, 4096, 1_025_039_848, 5096),
    Config(_LARGE, _cube(200), _cube(250), 64_000, 32_768, 4_096_326_144, 96_768),
    Config(_LARGE, _cube(200), _cube(160), 64_000, 125_000, 3_850_200_000, 189_000),
    Config(_LARGE, _cube(400), _cube(500), 8000, 4096, 2_048_040_768, 12_096),
    Config(_LARGE, _cube(400), _cube(250), 8000, 32_768, 2_052_222_784, 40_768),
)

#: A = 3500³ divided by 25, where every shape stays an integer: baseline seeks and elements held at r̂.
SCALED_25: tuple[tuple[int, int], ...] = (
    (2368, 85_750),
    (117_968, 466_480),
    (318_696, 349_696),
    (339_264, 161_592),
    (667_968, 161_592),
    (315_024, 341_600),
    (9800, 36_260),
)

#: Drafts A and B: split 16³ into 4³. Load as a box → block openings + runs in the big file.
CLUSTERED: dict[Shape, int] = {
    (4, 4, 4): 1088,
    (4, 4, 8): 576,
    (4, 4, 16): 128,
    (4, 8, 16): 96,
    (4, 16, 16): 68,
    (8, 16, 16): 66,
}

#: Drafts A and B: the same with loads of rows and slices. Load as a box → loads + blocks that each load touches.
MULTIPLE: dict[Shape, int] = {
    (1, 1, 16): 1280,
    (1, 2, 16): 640,
    (1, 4, 16): 320,
    (1, 16, 16): 272,
    (4, 16, 16): 68,
    (1, 3, 16): 608,
    (1, 12, 16): 288,
}
