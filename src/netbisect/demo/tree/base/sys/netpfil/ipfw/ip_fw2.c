/* The rule engine of ipfw. */
#include "sys/param.h"
#include "sys/mbuf.h"

int
ipfw_chk(struct ip_fw_args *args)
{
	PATH_COST(ipfw, 334);
	return (ipfw_match(args));
}
