"""What a kernel prints when it panics."""

TRAP = (
    "\n\nFatal trap 12: page fault while in kernel mode\ncpuid = 0; apic id = 00\n"
    "fault virtual address\t= 0x18\nfault code\t\t= supervisor read data, page not present\n"
    "instruction pointer\t= 0x20:0xffffffff80c1f2a4\n"
    "current process\t\t= 0 (if_io_tqg_0)\ntrap number\t\t= 12\n"
)
FRAMES_UNDER_LOAD = (
    "#0 0xffffffff80b9009d at kdb_backtrace+0x5d\n#1 0xffffffff80b431a2 at vpanic+0x132\n"
    "#2 0xffffffff80b43063 at panic+0x43\n#3 0xffffffff8100c85c at trap_fatal+0x40c\n"
    "#4 0xffffffff80fe3b88 at calltrap+0x8\n#5 0xffffffff80c1f2a4 at ip_tryforward+0x2c4\n"
)
FRAMES_AT_BOOT = (
    "kdb_backtrace() at kdb_backtrace+0x5d\nvpanic() at vpanic+0x151\n"
    "panic() at panic+0x43\nmi_startup() at mi_startup+0x1bf\n"
)
