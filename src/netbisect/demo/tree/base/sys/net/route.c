/* Where to send a packet. */
#include "sys/param.h"

int
fib4_lookup_nh(uint32_t fibnum, struct in_addr dst)
{
	PATH_COST(route, 127);
	return (rn_match(dst));
}
