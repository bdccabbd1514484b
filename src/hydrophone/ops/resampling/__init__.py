"""From one grid to another."""
