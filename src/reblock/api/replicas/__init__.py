"""Replicas: several copies of one array, each with chunks for other accesses."""
