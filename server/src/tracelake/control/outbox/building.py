"""Builds the drainer of a control process if a webhook is configured."""

from datetime import timedelta

from tracelake.control.database.transactions import Database, Watch
from tracelake.control.outbox.service import Drainer
from tracelake.control.outbox.webhook import Webhook
from tracelake.settings import WebhookSettings


def build_drainer(database: Database, webhook: WebhookSettings, kind: str, watch: Watch) -> Drainer | None:
    """Sends what the outbox holds of this kind to the webhook."""
    if webhook.url is None:
        return None
    secret = webhook.secret.get_secret_value() if webhook.secret else None
    sender = Webhook(webhook.url, secret, webhook.timeout_seconds, webhook.allow_private_addresses)
    return Drainer(database, {kind: sender}, longest_send=timedelta(seconds=webhook.timeout_seconds), watch=watch)
