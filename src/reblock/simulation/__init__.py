"""Simulation: predict how long a plan takes on many workers, without running it."""

from reblock.simulation.events import simulate
from reblock.simulation.outcome import Outcome
from reblock.simulation.scenario import RequestPrices, Scenario, Stragglers

__all__ = ["Outcome", "RequestPrices", "Scenario", "Stragglers", "simulate"]
