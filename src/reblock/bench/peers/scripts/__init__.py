"""Contenders of `reblock bench peers`, a module each; every run has a process of its own, in its own environment.

A module has `run(job)`, which does the copy that the job describes and says what it took. Modules here import
nothing of reblock but each other, so they also work where reblock is not installed; `__main__` makes that possible.
"""
