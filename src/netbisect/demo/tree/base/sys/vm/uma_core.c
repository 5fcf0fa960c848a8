/* The zone allocator. */
#include "sys/param.h"

void *
uma_zalloc(uma_zone_t zone, int flags)
{
	PATH_COST(mbuf, 29);
	return (cache_alloc(zone, flags));
}
