"""Serving simulated: traffic through an engine, exact to the iteration."""
