"""Remember: what was measured, asked, decided and sent. The only SQL and the only git."""
