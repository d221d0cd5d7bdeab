"""The decisions. Pure: an observation, a spec and the time in, a plan out; no clock, no I/O, no memory.

Read in the order of `controller`: `revision`, `assess` (`trust`, `load`, `supply`, `stabilize`), `rules`
(`limits_tuning`, `replicas`, `feasibility`), `verdict` (`modes`), `drain`, `rollout`, `children`, `report`
(`health`, `conditions`, `record`), `events`.
"""
