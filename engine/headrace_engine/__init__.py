"""The data plane: one engine, from a request on the wire to its tokens.

`core` decides, `runner` computes, `server` talks, `telemetry` tells.
"""
