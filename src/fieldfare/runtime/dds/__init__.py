"""The bridge between an edge and a DDS domain (Cyclone DDS, the extra `dds`): two DDS networks meet through Fieldfare.

    DDS writer ─▶ participant (a thread) ─▶ topic bridge ─▶ edge, topic `dds.T`
    DDS reader ◀─ participant (a thread) ◀─ topic bridge ◀─ edge, topic `dds.T`

`participant` is the only module that talks to DDS: it discovers endpoints by the built-in topics, takes samples and
writes them. `bridge` decides what is read and written; `carrying` decides which of several bridges in one domain
does it. `values`, `policies` and `names` translate: samples and events, QoS, and names.
"""

from fieldfare.runtime.dds.bridge import DdsBridge
from fieldfare.runtime.dds.options import DdsOptions, some_name

__all__ = ["DdsBridge", "DdsOptions", "some_name"]
