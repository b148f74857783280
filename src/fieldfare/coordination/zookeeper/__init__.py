"""Coordination by ZooKeeper, without input and output: what a broker writes there, watches, and tells its node.

    znodes       requests to ZooKeeper and their answers, as data
    tree         where things stand in ZooKeeper
    procedures   runs work that takes several requests
    writes       what a broker keeps written there
    views        what it watches, and tells its node
    member       the two together: all that one broker does

`fieldfare.runtime.zookeeper` runs it on kazoo, `fieldfare.simulation.zookeeper` on a simulated ZooKeeper.
"""

from fieldfare.coordination.zookeeper.member import ZooKeeperMember
from fieldfare.coordination.zookeeper.procedures import MemberOptions, ZooKeeperPort
from fieldfare.coordination.zookeeper.tree import Tree

__all__ = ["MemberOptions", "Tree", "ZooKeeperMember", "ZooKeeperPort"]
