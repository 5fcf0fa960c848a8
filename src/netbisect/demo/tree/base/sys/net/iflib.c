/* Code that network drivers have in common. */
#include "sys/param.h"
#include "sys/mbuf.h"

int
iflib_device_register(device_t dev, void *sc)
{
	return (iflib_queues_alloc(dev, sc));
}

static int
iflib_queues_alloc(device_t dev, void *sc)
{
	return (0);
}
