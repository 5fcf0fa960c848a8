"""Database: tables, rows, sessions, migrations and PostgreSQL."""
