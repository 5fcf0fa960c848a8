"""The oldest schema that is migrated. New databases get the tables of store/db/tables.py."""

from __future__ import annotations

revision = "0008"
down_revision = None
branch_labels = None
depends_on = None
