/* Intel Ethernet: em(4) and igb(4). */
#include "sys/param.h"

static int
em_attach(device_t dev)
{
	em_identify_hardware(dev);
	return (em_setup_interface(dev));
}
