"""Reads TVMScript."""
