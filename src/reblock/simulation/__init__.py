"""Simulation: what a plan would take on many workers, without any of them."""

from reblock.simulation.events import simulate
from reblock.simulation.outcome import Outcome
from reblock.simulation.scenario import RequestPrices, Scenario, Stragglers

__all__ = ["Outcome", "RequestPrices", "Scenario", "Stragglers", "simulate"]
