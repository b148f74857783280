"""Peers without infrastructure as processes: the nodes of `fieldfare.dmm` and `fieldfare.pastry` on asyncio and UDP.

peer            what a program holds: subscribe, publish, leave
checking        names, conditions and events, looked at before anything happens
options         what can be set of a peer, and what it lets wait
peer_socket     where a peer listens, and where others reach it
admission       who is let in: by a shared secret, or by certificates
strangers       who has another secret is told so
peer_folder     what survives a restart
program         what a program waits for, and what its peer tells it
subscription    events as they come, for one consumer
outcome         what became of a publication
qos_words       which words of `fieldfare.qos` peers keep, and why not the others
status          a peer as others see it: ring, regions, load; status_server shows it on this machine
bridge          an edge and a ring of peers share topics
process         a peer as a process; lines reads its input
"""
