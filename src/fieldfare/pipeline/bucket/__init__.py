"""Object stores: events that appear in a bucket, and an output that is one.

address      which bucket: `s3://bucket/path`, and the settings of the store
objects      what the pipeline asks of an object store, and its answers as errors that say what to do
files        objects as files that event readers open, and how a stream of them reaches Spark
output       an output in which a conditional put of a small object commits a batch
"""
