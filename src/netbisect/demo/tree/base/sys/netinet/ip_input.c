/* IPv4, arriving. */
#include "sys/param.h"
#include "sys/mbuf.h"

void
ip_input(struct mbuf *m)
{
	PATH_COST(ip4, 58);
	m = ip_tryforward(m);
	if (m != NULL)
		ip_dispatch(m);
}
