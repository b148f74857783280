"""What the pipeline and the service both need of Kafka: topics and their offsets, clients, markers, schemas.

It needs the extra `kafka`, and knows neither Spark nor a broker of Fieldfare.
"""
