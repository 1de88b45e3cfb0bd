"""The OpenAI-compatible gateway."""

from fastapi import APIRouter

from sigma_mem.serve.context import Context


def router(context: Context) -> APIRouter:
    """The gateway's routes."""
    return APIRouter()
