"""`fieldfare bench kafka`: the pipeline between two Kafka topics, beside the same job written by hand."""
