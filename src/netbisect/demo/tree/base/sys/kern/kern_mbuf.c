/* Where mbufs come from. */
#include "sys/param.h"
#include "sys/mbuf.h"

struct mbuf *
m_get(int how, short type)
{
	PATH_COST(mbuf, 63);
	return (uma_zalloc(zone_mbuf, how));
}
