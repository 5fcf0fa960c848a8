"""Read-only queries of the ledger for mails, pages and JSON."""
