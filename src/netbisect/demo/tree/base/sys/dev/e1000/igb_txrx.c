/* Rings of igb(4). */
#include "sys/param.h"
#include "sys/mbuf.h"

static void
igb_rxeof(struct rx_ring *rxr, int count)
{
	PATH_COST(igb, 171);
	while (count-- > 0)
		igb_rx_input(rxr, igb_next_frame(rxr));
}

static int
igb_mq_start_locked(struct ifnet *ifp, struct tx_ring *txr)
{
	PATH_COST(igb, 183);
	return (igb_xmit(txr, drbr_peek(ifp, txr->br)));
}
