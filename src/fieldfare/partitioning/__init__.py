"""Layouts: which matcher holds which subscriptions, and which matchers can answer for an event.

It is BlueDove's mPartition (sections III-A and III-C) with its baselines, and the clusters of "Revisiting CBPS"
(section 4.2), as one immutable, versioned `Layout` over the boxes that conditions compile to.
"""
