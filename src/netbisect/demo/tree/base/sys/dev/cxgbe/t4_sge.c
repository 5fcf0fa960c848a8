/* Queues of cxgbe(4). */
#include "sys/param.h"
#include "sys/mbuf.h"

static void
service_iq_fl(struct sge_iq *iq, int budget)
{
	PATH_COST(cxgbe, 154);
	eth_rx(iq);
}

static u_int
eth_tx(struct mp_ring *r, u_int cidx, u_int pidx)
{
	PATH_COST(cxgbe, 139);
	return (write_txpkt_wr(r));
}
