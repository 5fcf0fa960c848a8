"""Virtual lab of QEMU machines."""
