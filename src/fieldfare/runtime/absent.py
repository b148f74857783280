"""What a host answers where it has no webhooks or no pipeline: a refusal that says so."""

from __future__ import annotations

from fieldfare.messages import (
    BatchStored,
    CallWebhook,
    CheckWebhook,
    HandedOver,
    HandEvents,
    HandSubscription,
    UsePipeline,
    WebhookCalled,
    WebhookChecked,
)
from fieldfare.runtime.host import Capability, Host

_NO_WEBHOOKS = "webhooks are switched off"


class NoWebhooks(Capability):
    """Refuses webhooks."""

    def install(self, host: Host) -> None:
        """Answer CheckWebhook and CallWebhook."""
        self._host = host
        host.kernel.provide(CheckWebhook, lambda effect: host.tell(WebhookChecked(effect.number, _NO_WEBHOOKS)))
        host.kernel.provide(CallWebhook, self._call)

    def _call(self, effect: CallWebhook) -> None:
        subscription = effect.handle, effect.tenant, effect.subscription
        self._host.tell(WebhookCalled(*subscription, effect.position, _NO_WEBHOOKS, is_permanent=True))


class NoPipeline(Capability):
    """Refuses what only Spark can match."""

    def install(self, host: Host) -> None:
        """Answer HandEvents and HandSubscription."""
        self._host = host
        host.kernel.provide(HandEvents, self._refuse)
        host.kernel.provide(HandSubscription, self._refuse)
        host.kernel.provide(UsePipeline, _nothing)
        host.kernel.provide(BatchStored, _nothing)

    def _refuse(self, effect: HandEvents | HandSubscription) -> None:
        self._host.tell(HandedOver(effect.number, "this service has no Spark pipeline: start it with --spark"))


def _nothing(_: object) -> None:
    """There is nobody to be told."""
