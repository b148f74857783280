"""Kafka for the pipeline: a topic as the source of events, and topics as its output, exactly once.

The driver plans ranges of offsets; the Python worker that needs the events reads them with confluent-kafka. Output is
staged by tasks and sent by one transactional producer of the driver.
"""
