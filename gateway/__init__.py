"""The gateway, `sphragis`: scans, replaces, records and forwards what agents send to a model."""
