/* IPv4, leaving. */
#include "sys/param.h"
#include "sys/mbuf.h"

int
ip_output(struct mbuf *m, struct route *ro)
{
	return (ether_output_frame(ro->ifp, m));
}
