/* How pfctl(8) talks to the packet filter. */
#include "sys/param.h"

int
pfioctl(struct cdev *dev, u_long cmd, caddr_t addr)
{
	switch (cmd) {
	case DIOCSTART:
		return (pf_start());
	default:
		return (ENODEV);
	}
}
