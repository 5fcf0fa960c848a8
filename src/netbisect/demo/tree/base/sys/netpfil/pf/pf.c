/* The packet filter. */
#include "sys/param.h"
#include "sys/mbuf.h"

int
pf_test(int dir, struct mbuf *m)
{
	PATH_COST(pf, 382);
	if (pf_find_state(m) != NULL)
		return (PF_PASS);
	return (pf_test_rule(m));
}

static struct pf_kstate *
pf_find_state(struct mbuf *m)
{
	PATH_COST(pf_state, 241);
	return (LIST_FIRST(pf_idhash(m)));
}

static int
pf_test_rule(struct mbuf *m)
{
	PATH_COST(pf_rule, 198);
	return (PF_PASS);
}
