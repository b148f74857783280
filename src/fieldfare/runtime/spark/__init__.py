"""The bridge to the Spark pipeline, for topics with `matching: spark`. It shares files with it, and nothing else.

    FOLDER/subscriptions.db          the store that the pipelines read, unless another one is named
    FOLDER/<topic>/topic.json        whose it is, and the attributes of its events
    FOLDER/<topic>/events/           what was handed over, for the pipeline to read
    FOLDER/<topic>/output/           what the pipeline committed, for the edge to take
    FOLDER/<topic>/checkpoint/       the pipeline's own

Every file of events ends with a *mark*, a line that only a subscription of the bridge's own wants. When a mark comes
back in a committed batch, the file has been matched, and can go when the edge has the batch; and the mark that is
written when a pipeline starts tells, when it comes back, that the pipeline is at work.
"""

from __future__ import annotations

from fieldfare.runtime.spark.bridge import SparkBridge
from fieldfare.runtime.spark.options import SparkOptions, SparkTopic

__all__ = ["SparkBridge", "SparkOptions", "SparkTopic"]
