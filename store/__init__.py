"""Database of facts, jobs, results, alerts and mails; mirrors of git repositories. The only SQL."""
