/* Ethernet frames in, Ethernet frames out. */
#include "sys/param.h"
#include "sys/mbuf.h"

static void
ether_input(struct ifnet *ifp, struct mbuf *m)
{
	PATH_COST(ether, 48);
	ether_demux(ifp, m);
}

void
ether_demux(struct ifnet *ifp, struct mbuf *m)
{
	PATH_COST(ether, 31);
	netisr_dispatch(ether_type(m), m);
}

int
ether_output_frame(struct ifnet *ifp, struct mbuf *m)
{
	PATH_COST(ether, 44);
	return (ifp->if_transmit(ifp, m));
}
