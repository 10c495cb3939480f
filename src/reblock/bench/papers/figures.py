"""Figures of the papers: their problems, the tables that they print, and counts that were checked by brute force.

Shapes are those of Guédon's thesis, Table 3. Counts follow the corrected seek model. Elements have two bytes. DRA's
tables are copied from Krishnamoorthy et al., section 6, the small counts from drafts A and B.
"""

from __future__ import annotations

from dataclasses import dataclass

from reblock.geometry import Grid
from reblock.model import Access, Layout, Pass

#: Lengths of three axes.
Shape = tuple[int, int, int]

#: Bytes of an element in the thesis' arrays (float16).
ITEM_BYTES = 2


@dataclass(frozen=True)
class PaperPass:
    """A pass that a paper or our brute force found, with its seeks and its peak."""

    read: tuple[tuple[int, ...] | int, ...]
    """R: per axis one length, or all lengths."""
    seeks: int
    """Seeks of source and target, openings included."""
    held_bytes: int
    """Largest number of bytes held, in elements read and not yet written."""
    order: Shape = (0, 1, 2)
    """Order of the axes, outermost first."""
    kept: tuple[int, ...] = (0, 1, 2)
    """Axes on which W = O; on the others W = R ∪ O."""
    tasks: Shape | None = None
    """T; None for the whole array."""

    def sweep(self, config: Config) -> Pass:
        """Build the pass for a configuration."""
        read, target = Grid.of(config.shape, self.read), config.layouts()[1].objects
        write = [
            o if d in self.kept else r.refine(o) for d, (r, o) in enumerate(zip(read.axes, target.axes, strict=True))
        ]
        tasks = Grid.of(config.shape, self.tasks or config.shape)
        return Pass(read, Grid(tuple(write)), tasks, self.order, Access.RUNS, Access.RUNS)


@dataclass(frozen=True)
class Config:
    """One row of thesis Table 3, with the counts of baseline and KEEP."""

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
    """Seeks of baseline: R = T = I, W = I ∪ O."""
    lower_bound: int = 0
    """n_I + n_O."""
    baseline_runs: int | None = None
    """Contiguous byte ranges of baseline, source and target."""
    largest_read: Shape = (0, 0, 0)
    """r̂ = I·⌈O/I⌉: with this read shape every axis can be kept."""
    held_elements: int | None = None
    """Peak in elements at r̂, all axes kept, C order."""
    thesis: PaperPass | None = None
    """The thesis' choice in Table 4 under 4 GB, counted by the corrected model."""
    keep: PaperPass | None = None
    """The choice of the thesis' algorithm with the corrected count."""
    bound: tuple[PaperPass, ...] = ()
    """Passes that reach the lower bound: first with read shapes that divide A and T = A, then with smaller peaks."""
    best: PaperPass | None = None
    """The fewest seeks known under 4 GB."""

    def layouts(self, dtype: str = "<f2") -> tuple[Layout, Layout]:
        """Raw layouts of source and target, C order on disk."""
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
        thesis=PaperPass((875, 1750, 875), 96, 2_679_687_500),
        keep=PaperPass((875, 1750, 875), 96, 2_679_687_500),
        bound=(PaperPass((875, 875, 875), 96, 2_679_687_500, (0, 2, 1)),),
        best=PaperPass((875, 1750, 875), 96, 2_679_687_500),
    ),
    Config(
        _SMALL, _cube(875), (700, 875, 700), 64, 100, 73_500_368, 164, 73_500_128, _cube(875), 7_288_750_000,
        thesis=PaperPass((700, 875, 875), 356, 1_715_000_000),
        keep=PaperPass((700, 875, 875), 356, 1_715_000_000),
        bound=(PaperPass((875, 875, 875), 164, 4_930_625_000, (1, 0, 2)),),
        best=PaperPass((1400, 875, 875), 260, 3_430_000_000),
    ),
    Config(
        _SMALL, _cube(350), _cube(500), 1000, 343, 196_005_096, 1343, 196_001_000, _cube(700), 5_464_000_000,
        thesis=PaperPass((500, 700, 700), 3143, 1_900_000_000),
        keep=PaperPass((350, 700, 700), 2568, 1_330_000_000, kept=(1, 2)),
        bound=(
            PaperPass((350, 700, 700), 1343, 10_614_000_000, (1, 2, 0)),
            PaperPass((350, 1050, 1050), 1343, 6_059_000_000, (1, 2, 0)),
        ),
        best=PaperPass((1400, 350, 1050), 1637, 3_612_000_000, (0, 2, 1), (1, 2)),
    ),
    Config(
        _SMALL, _cube(350), _cube(250), 1000, 2744, 196_348_224, 3744, 196_337_792, _cube(350), 2_524_875_000,
        thesis=PaperPass((250, 350, 350), 7144, 412_500_000),
        keep=PaperPass((250, 350, 350), 7144, 412_500_000),
        bound=(
            PaperPass((350, 350, 1750), 3744, 2_887_500_000, (2, 0, 1)),
            PaperPass(((1050, 700) * 2, 350, 350), 3744, 1_094_250_000, tasks=_cube(1750)),
        ),
        best=PaperPass((350, 350, 1750), 3744, 2_887_500_000, (2, 0, 1)),
    ),
    Config(
        _SMALL, _cube(175), _cube(250), 8000, 2744, 392_040_768, 10_744, 392_008_000, _cube(350), 2_524_875_000,
        thesis=PaperPass((250, 350, 350), 25_144, 412_500_000),
        keep=PaperPass((175, 350, 350), 20_544, 288_750_000, kept=(1, 2)),
        bound=(
            PaperPass((175, 1750, 1750), 10_744, 2_450_000_000, (1, 2, 0)),
            PaperPass((1750, (525, 525, 525, 175) * 2, 175), 10_744, 1_588_125_000),
            PaperPass(
                ((525, 525, 525, 175) * 2, (525, 525, 525, 175) * 2, 175), 10_744, 757_375_000, tasks=_cube(1750)
            ),
        ),
        best=PaperPass((175, 1750, 1750), 10_744, 2_450_000_000, (1, 2, 0)),
    ),
    Config(
        _SMALL, (350, 875, 350), (500, 875, 500), 400, 196, 196_001_424, 596, 196_000_400, (700, 875, 700),
        5_337_500_000,
        thesis=PaperPass((500, 875, 700), 1316, 962_500_000),
        keep=PaperPass((350, 875, 700), 1296, 673_750_000, kept=(1, 2)),
        bound=(
            PaperPass((350, 875, 350), 596, 3_185_000_000, (1, 0, 2)),
            PaperPass((350, 875, 1050), 596, 2_257_500_000, (1, 2, 0)),
        ),
        best=PaperPass((350, 875, 350), 596, 3_185_000_000, (1, 0, 2)),
    ),
    Config(
        _SMALL, (350, 875, 350), (350, 500, 350), 400, 700, 211_400, 1100, 210_800, (350, 875, 350), 566_562_500,
        thesis=PaperPass((350, 875, 350), 1100, 1_133_125_000),
        keep=PaperPass((350, 875, 350), 1100, 1_133_125_000),
        bound=(PaperPass((350, 875, 350), 1100, 306_250_000, (0, 2, 1)),),
        best=PaperPass((350, 875, 350), 1100, 1_133_125_000),
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

#: Drafts A and B, clustered: split 16³ into 4³. Load as a box → block openings + runs in the big file.
CLUSTERED: dict[Shape, int] = {
    (4, 4, 4): 1088,
    (4, 4, 8): 576,
    (4, 4, 16): 128,
    (4, 8, 16): 96,
    (4, 16, 16): 68,
    (8, 16, 16): 66,
}

#: Drafts A and B, multiple: split 16³ into 4³. Load as a box → loads + blocks that each load touches.
MULTIPLE: dict[Shape, int] = {
    (1, 1, 16): 1280,
    (1, 2, 16): 640,
    (1, 4, 16): 320,
    (1, 16, 16): 272,
    (4, 16, 16): 68,
    (1, 3, 16): 608,
    (1, 12, 16): 288,
}


# ---------------------------------------------------------------- printed figures
@dataclass(frozen=True)
class Printed:
    """One cell of thesis Table 4."""

    read: Shape
    """Read shape that KEEP chose."""
    gib: str
    """Peak memory in the thesis' "GiB", which are bytes · 1.048576 / 1e9."""
    largest: bool = False
    """Whether the thesis marks it as r̂."""

    def agrees(self, held_bytes: int) -> bool:
        """Whether a peak rounds to the printed one."""
        digits = len(self.gib.partition(".")[2])
        return f"{thesis_gib(held_bytes):.{digits}f}" == self.gib


def thesis_gib(held_bytes: int) -> float:
    """Convert bytes to the thesis' unit."""
    return held_bytes * 1.048576 / 1e9


#: Thesis Table 3: MiB of a source and of a target block, as printed, small array and large.
SIZES_3500 = ((1277, 2555), (1277, 818), (82, 238), (82, 29), (10, 29), (204, 417), (204, 116))
SIZES_8000 = (
    (15_258, 30_518), (15_258, 8766), (977, 1907), (977, 238), (15, 30), (15, 8), (122, 238), (122, 30),
)  # fmt: skip

#: Thesis Table 4: decimal gigabytes of memory → configurations 0 to 6.
TABLE_4: dict[int, tuple[Printed, ...]] = {
    4: (
        Printed((875, 1750, 875), "2.8", largest=True),
        Printed((700, 875, 875), "1.8"),
        Printed((500, 700, 700), "2.1"),
        Printed((250, 350, 350), "0.45"),
        Printed((250, 350, 350), "0.45"),
        Printed((500, 875, 700), "1.0"),
        Printed((350, 875, 350), "1.2", largest=True),
    ),
    8: (
        Printed((875, 1750, 875), "2.8", largest=True),
        Printed((700, 875, 875), "1.8"),
        Printed((500, 700, 700), "2.1"),
        Printed((350, 350, 350), "5.5"),
        Printed((350, 350, 350), "5.5", largest=True),
        Printed((500, 875, 700), "1.0"),
        Printed((350, 875, 350), "1.2", largest=True),
    ),
    256: (
        Printed((875, 1750, 875), "2.8", largest=True),
        Printed((875, 875, 875), "15.3", largest=True),
        Printed((700, 700, 700), "12.2", largest=True),
        Printed((350, 350, 350), "5.5", largest=True),
        Printed((350, 350, 350), "5.5", largest=True),
        Printed((700, 875, 700), "11.5", largest=True),
        Printed((350, 875, 350), "1.2", largest=True),
    ),
}

#: Thesis Fig. 5b: seconds of baseline and KEEP under 4 GB, configurations 0 to 6, by the authors' own results.
FIGURE_5B_GB = 4
FIGURE_5B = ((493, 401), (581, 384), (857, 428), (910, 506), (1577, 718), (574, 379), (363, 362))

#: Thesis 3.3.3: baseline seeks over KEEP's, on average.
SEEK_FACTOR = 90_000

#: Thesis 3.3.3: the largest speed-up of KEEP over baseline by gigabytes of memory (Fig. 5b).
SPEED_UP = {4: 2.2, 8: 1.9, 256: 1.4}


@dataclass(frozen=True)
class Timings:
    """Seconds of one of DRA's Tables 2 to 4 for one number of processes."""

    table: int
    """Number of the table."""
    processes: int
    """Number of I/O processes, one per node, each with its own disk."""
    side: int
    """The array has side × side doubles, row-major."""
    node_bytes: int
    """Memory of a node, from Table 1."""
    rows: tuple[tuple[int, int, int, int, int], ...]
    """Rows and columns of the access, then skewed access, conversion and aligned access."""


DRA: tuple[Timings, ...] = (
    Timings(
        2, 1, 32_768, 4 << 30,
        (
            (4, 32_768, 176, 359, 172), (8, 16_384, 179, 343, 178), (16, 8192, 182, 345, 175),
            (32, 4096, 196, 357, 180), (64, 2048, 249, 368, 181), (128, 1024, 340, 372, 179),
            (256, 512, 517, 371, 183), (512, 256, 861, 372, 181), (1024, 128, 1580, 377, 183),
            (2048, 64, 2994, 384, 184), (4096, 32, 5760, 373, 180),
        ),
    ),
    Timings(
        2, 2, 32_768, 4 << 30,
        (
            (4, 32_768, 97, 241, 90), (8, 16_384, 88, 191, 88), (16, 8192, 91, 173, 91), (32, 4096, 105, 188, 92),
            (64, 2048, 129, 190, 93), (128, 1024, 172, 202, 94), (256, 512, 266, 173, 93), (512, 256, 434, 165, 92),
            (1024, 128, 749, 163, 94), (2048, 64, 1393, 167, 93), (4096, 32, 2697, 170, 95),
        ),
    ),
    Timings(
        3, 4, 65_536, 4 << 30,
        (
            (8, 16_384, 207, 733, 212), (16, 8192, 238, 644, 229), (32, 4096, 300, 743, 230),
            (64, 2048, 419, 723, 230), (128, 1024, 650, 623, 230), (256, 512, 1110, 538, 230),
            (512, 256, 2030, 466, 230),
        ),
    ),
    Timings(
        4, 1, 65_536, 8 << 30,
        (
            (8, 16_384, 155, 370, 221), (16, 8192, 209, 420, 229), (32, 4096, 298, 428, 292),
            (64, 2048, 436, 423, 298), (128, 1024, 734, 469, 304), (256, 512, 1315, 453, 307),
            (512, 256, 2473, 446, 316),
        ),
    ),
    Timings(
        4, 2, 65_536, 8 << 30,
        (
            (8, 16_384, 137, 249, 71), (16, 8192, 177, 224, 72), (32, 4096, 321, 241, 69), (64, 2048, 521, 265, 71),
            (128, 1024, 973, 287, 68), (256, 512, 1938, 252, 71), (512, 256, 3648, 276, 64),
        ),
    ),
    Timings(
        4, 4, 65_536, 8 << 30,
        (
            (8, 16_384, 54, 186, 49), (16, 8192, 83, 138, 63), (32, 4096, 95, 133, 54), (64, 2048, 129, 116, 58),
            (128, 1024, 194, 128, 62), (256, 512, 322, 144, 54), (512, 256, 579, 149, 56),
        ),
    ),
)  # fmt: skip
