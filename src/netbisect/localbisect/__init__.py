"""`netbisect bisect run`: bisection without a service."""
