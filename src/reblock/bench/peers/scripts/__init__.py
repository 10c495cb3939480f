"""Scripts of `reblock bench peers`: one module per contender; each run is a process in the contender's environment.

A contender's module has `run(job)`, which makes the copy and returns what it measured. Except `reblock`, these modules
import nothing of reblock but each other, so they also run where reblock is not installed; see `__main__`.
"""
