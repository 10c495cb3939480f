"""Text for plans, costs, reports and tables."""
