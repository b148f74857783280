"""Topics of an edge that are fed from Kafka, or feed it, exactly once.

    Kafka ─ reader (a thread) ─ inflow ─▶ edge        events and the next offset are one record of the edge's log
    edge ─▶ outflow ─ sender (a thread) ─ Kafka       events and their position are one transaction of Kafka

To the edge both are clients, as the bridge to DDS is. What they need to know beside is in `EdgeView`.
"""
