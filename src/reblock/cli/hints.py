"""Hints: suggestions for a command or an option that does not exist.

A suggestion is spelled like the typed name, or is our name for an option that other programs call so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import click

#: Our command for each name that other programs use.
COMMANDS: Mapping[str, str] = {
    **dict.fromkeys(("convert", "rechunk", "repartition", "copy", "cp", "transform", "write"), "run"),
    **dict.fromkeys(("nccopy", "h5repack", "transpose", "crop", "reblock", "start", "execute"), "run"),
    **dict.fromkeys(("diff", "compare", "cmp", "check", "equal", "test", "validate", "digest", "hash"), "verify"),
    **dict.fromkeys(("ls", "show", "describe", "inspect", "header", "dump", "ncdump", "h5ls", "h5dump", "cat"), "info"),
    **dict.fromkeys(("explain", "dry-run", "estimate", "cost", "price"), "plan"),
    **dict.fromkeys(("progress", "state", "ps", "list", "jobs"), "status"),
    **dict.fromkeys(("abort", "cancel", "rm", "remove", "delete", "cleanup", "reset", "purge"), "clean"),
    **dict.fromkeys(("continue", "restart", "retry", "go-on"), "resume"),
    **dict.fromkeys(("example", "tutorial", "sample"), "demo"),
    **dict.fromkeys(("benchmark", "calibrate", "race"), "bench"),
    **dict.fromkeys(("advice", "recommend", "suggest", "optimize", "optimise", "tune", "chunks"), "advise"),
    **dict.fromkeys(("autocomplete", "complete", "shell"), "completion"),
    **dict.fromkeys(("predict", "model", "forecast", "scale"), "simulate"),
}
#: Our option for each name that other programs use.
OPTIONS: Mapping[str, str] = {
    **dict.fromkeys(("--compressor", "--compression", "--compress", "--filter", "--filters", "--deflate"), "--codec"),
    **dict.fromkeys(("--compressors", "--codecs", "--gzip", "--zstd", "--level"), "--codec"),
    **dict.fromkeys(("--chunk-size", "--chunksize", "--chunksizes", "--chunk-sizes", "--chunk-shape"), "--chunks"),
    **dict.fromkeys(("--blocks", "--block-size", "--block-shape", "--tile", "--tiles", "--chunking"), "--chunks"),
    **dict.fromkeys(("--shard-size", "--shard-shape", "--sharding"), "--shards"),
    **dict.fromkeys(("--mem", "--max-mem", "--max-memory", "--memory-limit", "--ram", "--budget"), "--memory"),
    **dict.fromkeys(("--force", "--replace", "--clobber", "--yes"), "--overwrite"),
    **dict.fromkeys(("--format", "--output-format", "--target-format", "--to-format"), "--to"),
    **dict.fromkeys(("--input-format", "--source-format", "--from-format"), "--from"),
    **dict.fromkeys(("--slice", "--slices", "--crop", "--subset", "--roi", "--selection", "--box"), "--region"),
    **dict.fromkeys(("--axes", "--order", "--permute", "--axis-order", "--dims"), "--transpose"),
    **dict.fromkeys(("--type", "--astype", "--data-type"), "--dtype"),
    **dict.fromkeys(("--tmp", "--temp", "--tmpdir", "--temp-dir", "--tempdir", "--work-dir"), "--scratch"),
    **dict.fromkeys(("--algorithm", "--method", "--planner"), "--strategy"),
    **dict.fromkeys(("--optimize", "--optimise", "--goal", "--minimize"), "--objective"),
    **dict.fromkeys(("--disk", "--storage", "--medium"), "--device"),
    **dict.fromkeys(("--checksums", "--crc", "--crc32c", "--fletcher32"), "--checksum"),
    **dict.fromkeys(("--silent", "--no-progress"), "--quiet"),
    **dict.fromkeys(("--pattern", "--access-pattern", "--reads", "--queries"), "--access"),
    **dict.fromkeys(("--shard-order", "--curve", "--layout-order"), "--chunk-order"),
    **dict.fromkeys(("--skip-existing", "--ignore-existing"), "--exist-ok"),
    **dict.fromkeys(("--simulate", "--just-print", "--check"), "--dry-run"),
    **dict.fromkeys(("--follow-links", "--allow", "--root", "--roots"), "--allow-external"),
    **dict.fromkeys(("--missing", "--fill"), "--on-missing"),
    **dict.fromkeys(("--engine", "--library", "--independent"), "--reader"),
}
#: Options of other programs that are arguments here.
ARGUMENTS: Mapping[str, str] = {
    **dict.fromkeys(("--output", "--out", "-o", "--target", "--dst", "--destination"), "DST, the second argument"),
    **dict.fromkeys(("--input", "--in", "-i", "--source", "--src"), "SRC, the first argument"),
}
#: How similar one of our commands, one of our options, and a name of other programs must be.
_NEAR_COMMAND, _NEAR_OPTION, _NEAR_OTHERS = 0.65, 0.7, 0.8


def for_command(typed: str, known: Collection[str]) -> str | None:
    """The command that was probably meant."""
    return _meant(typed.lower(), known, COMMANDS, _NEAR_COMMAND)


def for_option(typed: str, command: click.Command) -> str | None:
    """The option or argument that was probably meant."""
    known = [name for one in command.params if isinstance(one, click.Option) and not one.hidden for name in one.opts]
    arguments = any(isinstance(one, click.Argument) for one in command.params)
    name = typed.partition("=")[0].lower()
    if name in ARGUMENTS and arguments:
        return ARGUMENTS[name]
    return _meant(name.replace("_", "-"), [*known, "--help"], OPTIONS, _NEAR_OPTION)


def _meant(typed: str, known: Collection[str], others: Mapping[str, str], similar: float) -> str | None:
    """Search by meaning, by spelling, and by the spelling of other programs' names."""
    if others.get(typed) in known:
        return others[typed]
    from difflib import get_close_matches

    if near := get_close_matches(typed, known, 1, similar):
        return near[0]
    spelled = [name for name, here in others.items() if here in known]
    near = get_close_matches(typed, spelled, 1, _NEAR_OTHERS)
    return others[near[0]] if near else None
