"""The link between the two processes of an engine: HTTP on one side, the engine core on the other.

A stream socket carries frames both ways: commands to the core, which take effect between two steps, and
notices from it, one report a turn. Everything on it is plain data with a length in front.
"""
