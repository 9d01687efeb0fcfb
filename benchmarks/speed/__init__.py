"""Throughput, time to quality, profiles, peers."""
