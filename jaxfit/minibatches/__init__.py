"""Which examples a step visits, and how they reach the devices."""
