"""The lab file of a testbed that is a virtual machine, for tests.

Registered as a plugin by conftest.py.
"""

ONE_TESTBED = """
[source]
repository = "tree"
[[builders]]
name = "builder"
arch = "amd64"
directory = "build"
[[testbeds]]
name = "vm1"
arch = "amd64"
kernel_config = "GENERIC"
scenarios = ["inet4-forwarding"]
generator = { address = "vm", port = { interface = "ingress" } }
receiver = { address = "vm", port = { interface = "egress" } }
"""
"""All but its rate, its DUT, its times and the machine itself, which follow in the same table."""
