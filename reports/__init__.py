"""Tell: mails, pages, charts and ministat blocks. Nouns in, text out; no files, no clock."""
