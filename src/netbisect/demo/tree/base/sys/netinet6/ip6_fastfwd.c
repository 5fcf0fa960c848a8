/* The short way through the stack for IPv6. */
#include "sys/param.h"
#include "sys/mbuf.h"

struct mbuf *
ip6_tryforward(struct mbuf *m)
{
	PATH_COST(ip6, 401);
	if (pfil_run_hooks(m) != 0)
		return (NULL);
	return (ether_output_frame(route6_of(m), m));
}
