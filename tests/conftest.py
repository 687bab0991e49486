"""Puts this directory on the import path, so that the test packages share `gateway_harness`."""
