"""The distributions that `src` imports are the declared ones, and the extras are declared for what needs them."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "reblock"
#: Programs that `reblock bench peers` runs in an environment of their own, where it has installed the peers.
PEERS = SOURCE / "bench" / "peers" / "scripts"
TESTING = SOURCE / "testing"
#: The room that imports the extra of its own name.
DASK = SOURCE / "dask"
XARRAY = SOURCE / "xarray"
#: Modules that may import an extra, each inside a function that says what is missing.
MEDIA = SOURCE / "storage" / "media"
NIFTI = SOURCE / "storage" / "nifti"
OPTIONAL = {
    "obstore": {MEDIA / f"object{name}.py" for name in ("", "_connection", "_redirects", "_store")},
    "botocore": {MEDIA / "object_upload.py"},
    "urllib3": {MEDIA / "http_store.py", MEDIA / "object_redirects.py"},
    "indexed_gzip": {NIFTI / "inflate.py"},
    "netCDF4": {SOURCE / "storage" / "netcdf" / "library.py"},
    "nibabel": {
        *(NIFTI / f"{name}.py" for name in ("adapt", "header", "library")),
        SOURCE / "storage" / "minc" / "library.py",
    },
    "psycopg": {MEDIA / f"postgres{name}.py" for name in ("_connections", "_handle", "_workspace")},
    "imagecodecs": {SOURCE / "storage" / "codecs" / "by_imagecodecs.py"},
    "tifffile": {SOURCE / "storage" / "tiff" / name for name in ("structure.py", "library.py")},
    "zarr": {SOURCE / "storage" / "zarr" / "library.py", DASK / "experiment.py"},
}


def project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def names(requirements: Iterable[str]) -> set[str]:
    return {re.split(r"[\s\[<>=!~;]", requirement)[0] for requirement in requirements}


def extra(name: str) -> set[str]:
    return names(project()["optional-dependencies"][name])


def imported(text: str) -> set[str]:
    """Top-level modules that a source text imports at any depth, the standard library and reblock left out."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            found.add((node.module or "").partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"reblock"}


def distributions(modules: Iterable[str]) -> set[str]:
    providers = importlib.metadata.packages_distributions()
    found = {name for module in modules for name in set(providers.get(module, [f"no distribution has {module}"]))}
    # A wheel may spell its own name with underscores.
    return {name.replace("_", "-") if "no distribution" not in name else name for name in found}


def files(*excluded: Path) -> list[Path]:
    return [
        file for file in sorted(SOURCE.rglob("*.py")) if not any(file.is_relative_to(folder) for folder in excluded)
    ]


def test_dependencies_are_what_is_imported() -> None:
    modules = set()
    for file in files(PEERS, TESTING, DASK, XARRAY):
        optional = {name for name, places in OPTIONAL.items() if file in places}
        modules |= imported(file.read_text()) - optional
    assert distributions(modules) == names(project()["dependencies"])


def test_extras_are_what_their_features_import() -> None:
    assert set(project()["optional-dependencies"]) == {
        *("dask", "filters", "library", "netcdf", "neuro", "parquet", "postgres", "s3", "testing", "tiff", "xarray"),
        "dev",
    }
    core = names(project()["dependencies"])
    testing = set().union(*(imported(file.read_text()) for file in sorted(TESTING.rglob("*.py"))))
    assert distributions(testing) - core == extra("testing")
    used = set().union(*(imported(file.read_text()) for file in sorted(DASK.rglob("*.py"))))
    assert distributions(used) - core == extra("dask") | extra("library") | {"distributed"}
    with_xarray = set().union(*(imported(file.read_text()) for file in sorted(XARRAY.rglob("*.py"))))
    assert distributions(with_xarray) - core == extra("xarray")
    for name, places in OPTIONAL.items():
        assert all(name in imported(file.read_text()) for file in places), name
    assert distributions(OPTIONAL) == set().union(*map(extra, ("library", "netcdf", "neuro", "postgres", "s3", "tiff")))
    assert extra("parquet") == {"pyarrow"}
    assert 'find_spec("pyarrow")' in (SOURCE / "api" / "extract" / "tables.py").read_text()
    assert extra("filters") == {"hdf5plugin"}
    assert 'find_spec("hdf5plugin"' in (SOURCE / "storage" / "hdf5" / "plugins.py").read_text()


def test_the_comparison_would_notice() -> None:
    assert imported("import os\nimport zarr.codecs\ndef f():\n    from dask import array\n") == {"zarr", "dask"}
    assert imported("from . import x\nfrom reblock.model import y\n") == set()
    assert distributions({"google_crc32c"}) == {"google-crc32c"}
    assert distributions({"no_such_module"}) == {"no distribution has no_such_module"}


def test_the_demo_runs_without_the_extras(tmp_path: Path) -> None:
    everything = importlib.metadata.packages_distributions()
    core = names(project()["dependencies"])
    missing = [module for module, providers in everything.items() if set(providers) & _beyond(core)]
    assert {"zarr", "pytest", "hypothesis"} <= set(missing)
    script = f"""
import sys
sys.modules.update(dict.fromkeys({missing!r}))
from reblock.cli import main
sys.argv = ["reblock", "demo", "--keep", {str(tmp_path)!r}]
main()
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert "verif" in result.stdout or "equal" in result.stdout


def _beyond(core: set[str]) -> set[str]:
    """Distributions that are installed here and that nothing in the core needs."""
    needed, waiting = set(), set(core)
    while waiting:
        name = waiting.pop()
        needed.add(name)
        for requirement in importlib.metadata.requires(name) or []:
            if "extra ==" not in requirement:
                waiting |= names([requirement]) - needed
    installed = {distribution.metadata["Name"] for distribution in importlib.metadata.distributions()}
    return installed - needed - {"reblock"}
