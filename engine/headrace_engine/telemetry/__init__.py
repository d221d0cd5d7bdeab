"""What the engine says about itself: step reports, Prometheus metrics, JSON logs. Never a prompt, never an
output.
"""
