"""Links between brokers over TCP, or TLS: dialled, let in, and looked after.

A node dials and is told Opened or Unreachable; whoever dials it appears as Opened, when both ends have proved that they
are brokers of one deployment. The name that a broker proves is all that a node is told; whether it is the one that was
meant is for the node to check.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable
from typing import Any, cast

from fieldfare.errors import LinkRefusedError, LinkSecurityError, ServiceError
from fieldfare.messages import BROKER_PROTOCOL, BrokerIdentity, Dial, Unreachable
from fieldfare.messages.frame_codec import FrameCodec
from fieldfare.runtime.host import Capability, Host
from fieldfare.runtime.link_greeting import Greeting
from fieldfare.runtime.link_protocol import LinkPorts, LinkProtocol, TcpLinkOptions
from fieldfare.runtime.link_security import LinkSecurity, TlsContexts
from fieldfare.runtime.links import Connection
from fieldfare.runtime.socket_addresses import SocketAddress
from fieldfare.runtime.tasks import Tasks

_BACKLOG = 256
_ACCEPT_AGAIN_SECONDS = 0.5  # after there was no file descriptor left for a connection
_PARTING_SECONDS = 1.0
_log = logging.getLogger(__name__)


class TcpLinks(Capability):
    """Dials other brokers, and with an address listens for them. `name` is this broker's own."""

    def __init__(
        self,
        codec: FrameCodec[Any, Any],
        name: str,
        security: LinkSecurity,
        listen_at: SocketAddress | None = None,
        options: TcpLinkOptions = TcpLinkOptions(),  # noqa: B008 - it is frozen
        *,
        protocol: str = BROKER_PROTOCOL,
    ) -> None:
        self.address = ""  # where others can dial, once it has started
        self._name, self._protocol, self._security, self._options = name, protocol, security, options
        self._listen_at = listen_at
        self._ports = LinkPorts(codec, security, options, self._open)
        self._tls: TlsContexts | None = None
        self._tasks = Tasks()
        self._greetings: dict[asyncio.Task[None], None] = {}  # of those that dialled this broker; the oldest first
        self._listener: socket.socket | None = None
        self._tick: asyncio.TimerHandle | None = None

    def install(self, host: Host) -> None:
        """Perform Dial."""
        self.host = host
        host.kernel.provide(Dial, lambda effect: self._tasks.start(self._dial(effect)))

    async def start(self) -> None:
        """Load the certificates, and listen, if there is an address to listen at."""
        if self._security.tls is not None:
            self._tls = TlsContexts(self._security.tls)
            self._tls.check(self._name)
        self.bind()
        if self._listener is not None:
            self._tasks.start(self._accept(self._listener))
        self._expect_tick()

    def bind(self) -> None:
        """Take the address to listen at, if there is one, so that it is known before the node is made."""
        if self._listen_at is not None and self._listener is None:
            self._listener = self._bound(self._listen_at)
            self.address = str(SocketAddress(*self._listener.getsockname()[:2]))

    async def stop(self) -> None:
        """Let nobody in, dial no more, and give what was sent a moment to leave."""
        if self._tick is not None:
            self._tick.cancel()
        await self._tasks.cancel()
        if self._listener is not None:
            self._listener.close()
        if parting := [protocol.ended for protocol in self._ports.alive]:
            await asyncio.wait(parting, timeout=_PARTING_SECONDS)
        for protocol in list(self._ports.alive):
            protocol.abort()
        await asyncio.sleep(0)

    # Dialling and letting in

    async def _dial(self, effect: Dial) -> None:
        try:
            address = SocketAddress.parse(effect.address)
            protocol = self._protocol_for(effect.link)
            tls = None if self._tls is None else self._tls.dialling
            await self._greet(protocol, self.host.loop.create_connection(lambda: protocol, *address, ssl=tls))
        except TimeoutError:
            self.host.tell(Unreachable(effect.link, f"{effect.address} did not answer in time"))
        except (OSError, ValueError, LinkRefusedError) as error:
            self.host.tell(Unreachable(effect.link, f"{effect.address}: {error}"))

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connected, _ = await self.host.loop.sock_accept(listener)
            except OSError as error:
                _log.error("A broker could not be let in: %s", error.strerror)
                await asyncio.sleep(_ACCEPT_AGAIN_SECONDS)
                continue
            if len(self._greetings) >= self._options.greetings_max:
                next(iter(self._greetings)).cancel()  # the oldest: who means it is sooner through than that
            self._tasks.start(self._let_in(connected))
            await asyncio.sleep(0)  # it has begun before the next one comes

    async def _let_in(self, connected: socket.socket) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._greetings[task] = None
        protocol = self._protocol_for(None)
        tls = None if self._tls is None else self._tls.listening
        try:
            await self._greet(protocol, self.host.loop.connect_accepted_socket(lambda: protocol, connected, ssl=tls))
        except (OSError, LinkRefusedError) as error:
            _log.info("A broker was not let in: %s", str(error) or "it did not greet in time")
        finally:
            del self._greetings[task]

    async def _greet(self, protocol: LinkProtocol, connecting: Awaitable[Any]) -> None:
        """Until both ends know each other; if they do not, the connection is closed."""
        try:
            async with asyncio.timeout(self._options.greeting_seconds):
                await connecting
                await protocol.greeted
        except BaseException as error:
            if isinstance(error, TimeoutError) and protocol.is_open:
                return  # they did so at the last moment
            protocol.abort()
            raise

    def _protocol_for(self, link: str | None) -> LinkProtocol:
        greeting = Greeting(self._protocol, self._name, self._security.secret, is_dialling=link is not None)
        return LinkProtocol(self._ports, greeting, link)

    def _open(self, protocol: LinkProtocol, identity: BrokerIdentity) -> Connection:
        return self.host.open_link(protocol.link, identity, protocol.send, protocol.close)

    # Looking after links

    def _expect_tick(self) -> None:
        self._tick_at = self.host.loop.time() + self._options.tick_seconds
        self._tick = self.host.loop.call_at(self._tick_at, self._look)

    def _look(self) -> None:
        """Look at every link. If this process itself was stopped meanwhile, the others were not silent so long."""
        now = self.host.loop.time()
        late_seconds = now - self._tick_at
        for protocol in list(self._ports.alive):
            if late_seconds > self._options.tick_seconds:
                protocol.heard_at += late_seconds
            protocol.look(now)
        self._expect_tick()

    # Listening

    def _bound(self, address: SocketAddress) -> socket.socket:
        if (unsafe := self._security.why_not(address.host)) is not None:
            raise LinkSecurityError(f"broker.listen: {unsafe}")
        try:
            found = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            listener = socket.create_server(found[0][4], family=found[0][0], backlog=_BACKLOG)
        except OSError as error:
            raise ServiceError(
                f"broker.listen: {address} cannot be used ({error.strerror}): choose another address, or stop what "
                "uses it; port 0 takes a free one"
            ) from error
        listener.setblocking(False)  # noqa: FBT003 - as it is called
        return listener
