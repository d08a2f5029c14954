"""Calls that enter native code directly."""
