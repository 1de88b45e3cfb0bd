"""What happened, written down: the lines of a ledger, and what they do to a memory.

`lines` has one type for every kind of line, and `records` their bytes. `fold` is what a line does to the
state, live as on replay; `event` is one event as its lines describe it. `journal` appends to the lines of a
namespace and keeps the state in step, and `snapshot` is that state as bytes.
"""
