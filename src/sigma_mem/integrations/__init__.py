"""Adapters: a memory inside the frameworks that people call their models from, one file each.

Nothing is imported before it is used: ``from sigma_mem.integrations.strands import SigmaStrategy`` needs
Strands, and nothing else. What they share is `sigma_mem.integrations.chooser`.
"""
