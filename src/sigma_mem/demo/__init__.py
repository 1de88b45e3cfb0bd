"""A real little multi-agent system that shows the memory at work.

Six agents answer a generated stream of tasks; every answer is worked out and
graded. A `SigmaMem` session routes each task before anyone answers, votes on the answers,
and learns from the grades. Halfway one agent is updated to a version with a real fault.
"""
