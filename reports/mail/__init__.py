"""Subjects and bodies of mails."""
