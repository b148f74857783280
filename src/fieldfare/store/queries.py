"""The SQL statements of the subscription store."""

# A filter that is None asks for every tenant, or every topic.
STATE = """
    SELECT number, subscription_id, condition FROM fieldfare_subscriptions
    WHERE number <= ? AND (ended IS NULL OR ended > ?) AND tenant = COALESCE(?, tenant) AND topic = COALESCE(?, topic)
    ORDER BY number"""
STARTED = """
    SELECT number, subscription_id, condition FROM fieldfare_subscriptions
    WHERE number > ? AND ended IS NULL AND tenant = COALESCE(?, tenant) AND topic = COALESCE(?, topic)
    ORDER BY number"""
# Not in order, and with a plus that means nothing: else SQLite walks through all numbers in place of the few ends.
ENDED = """
    SELECT number FROM fieldfare_subscriptions
    WHERE ended > ? AND +number <= ? AND tenant = COALESCE(?, tenant) AND topic = COALESCE(?, topic)"""
PAGE = """
    SELECT number, subscription_id, condition, tenant, topic, created_at, expires_at FROM fieldfare_subscriptions
    WHERE number > ? AND ended IS NULL AND tenant = COALESCE(?, tenant) AND topic = COALESCE(?, topic)
    ORDER BY number LIMIT ?"""
ONE = """
    SELECT number, subscription_id, condition, tenant, topic, created_at, expires_at FROM fieldfare_subscriptions
    WHERE subscription_id = ? AND ended IS NULL"""
KNOWN = """
    SELECT place FROM fieldfare_incoming i WHERE EXISTS (
        SELECT 1 FROM fieldfare_subscriptions s WHERE s.subscription_id = i.subscription_id AND s.ended IS NULL
    ) ORDER BY place"""
INSERT = """
    INSERT INTO fieldfare_subscriptions (number, subscription_id, tenant, topic, condition, expires_at, created_at)
    SELECT ? + place, subscription_id, tenant, topic, condition, expires_at, ? FROM fieldfare_incoming ORDER BY place"""
REPLACE = """
    UPDATE fieldfare_subscriptions SET ended = ? + i.place, end_reason = 'replaced' FROM fieldfare_incoming i
    WHERE fieldfare_subscriptions.subscription_id = i.subscription_id AND ended IS NULL"""
REMOVE = """
    UPDATE fieldfare_subscriptions SET ended = ?, end_reason = 'removed'
    WHERE ended IS NULL AND subscription_id IN (SELECT subscription_id FROM fieldfare_incoming)"""
DUE = "SELECT 1 FROM fieldfare_subscriptions WHERE ended IS NULL AND expires_at <= ? LIMIT 1"
EXPIRE = """
    UPDATE fieldfare_subscriptions SET ended = ?, end_reason = 'expired' WHERE ended IS NULL AND expires_at <= ?"""
FORGET = """
    DELETE FROM fieldfare_subscriptions WHERE number IN (
        SELECT number FROM fieldfare_subscriptions WHERE ended <= ? ORDER BY ended LIMIT ?)"""
# Made by the first who holds history: a store of an earlier version of Fieldfare has no such table.
READERS_TABLE = """
    CREATE TABLE IF NOT EXISTS fieldfare_readers (
        reader {text} PRIMARY KEY, version {integer} NOT NULL, held_at {integer} NOT NULL)"""
HOLD = """
    INSERT INTO fieldfare_readers (reader, version, held_at) VALUES (?, ?, ?)
    ON CONFLICT (reader) DO UPDATE SET version = excluded.version, held_at = excluded.held_at"""
RELEASE = "DELETE FROM fieldfare_readers WHERE held_at < ?"
OLDEST_HELD = "SELECT MIN(version) FROM fieldfare_readers"
