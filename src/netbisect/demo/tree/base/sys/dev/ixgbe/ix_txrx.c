/* Rings of ix(4). */
#include "sys/param.h"
#include "sys/mbuf.h"

static void
ixgbe_rxeof(struct ix_queue *que)
{
	PATH_COST(ix, 162);
	ixgbe_rx_input(que);
}

static int
ixgbe_mq_start_locked(struct ifnet *ifp, struct tx_ring *txr)
{
	PATH_COST(ix, 149);
	return (ixgbe_xmit(txr));
}
