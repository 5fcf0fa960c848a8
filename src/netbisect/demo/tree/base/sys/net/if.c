/* Network interfaces, seen from above. */
#include "sys/param.h"

struct ifnet *
if_alloc(int type)
{
	struct ifnet *ifp;

	ifp = malloc(sizeof(*ifp));
	ifp->if_type = type;
	return (ifp);
}

void
if_attach(struct ifnet *ifp)
{
	TAILQ_INSERT_TAIL(&ifnet_list, ifp, if_link);
}
