/* What pfctl(8) and pf(4) say to each other. */

struct pfioc_rule {
	u_int32_t	 action;
	u_int32_t	 ticket;
	u_int32_t	 pool_ticket;
	u_int32_t	 nr;
	struct pf_rule	 rule;
};
