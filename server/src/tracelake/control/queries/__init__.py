"""Queries: pins that protect what is read, receipts by which it can be read again, and statements that people keep."""
