"""The scheduler, pure: no torch, no I/O, no clock and no chance of its own.

An engine drives it with real steps; a simulator drives the very same classes on a simulated clock.
Time and limits are arguments, plans and results are frozen values, and the same calls give the same plans.
"""
