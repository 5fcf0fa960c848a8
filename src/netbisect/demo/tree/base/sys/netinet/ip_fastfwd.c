/* The short way through the stack: no options, not for us. */
#include "sys/param.h"
#include "sys/mbuf.h"

struct mbuf *
ip_tryforward(struct mbuf *m)
{
	PATH_COST(ip4, 173);
	if (ip_len(m) < sizeof(struct ip))
		return (m);
	if (pfil_run_hooks(m) != 0)
		return (NULL);
	return (ip_forward_fast(m));
}

static struct mbuf *
ip_forward_fast(struct mbuf *m)
{
	PATH_COST(ip4, 96);
	ip_decrement_ttl(m);
	return (ether_output_frame(route_of(m), m));
}
