"""The methods of `SigmaMem`, a file for each concern.

Each class here is a base of `SigmaMem` and does nothing by itself: `held` says what all of them share, which
`SigmaMem` makes. The files beside this folder do the work; a method checks, takes the lock and calls.
"""
